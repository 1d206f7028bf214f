/* A fake libcuda.so.1 of CUDA 12.2, to test the message about old drivers:
 * NVIDIA's runtime reads the version and gives up. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, NOT_FOUND = 500, VERSION = 12020 };

EXPORT int cuDriverGetVersion(int *version);
EXPORT int cuInit(unsigned flags);
EXPORT int cuGetProcAddress_v2(const char *name, void (**out)(void),
                               int version, uint64_t flags, int *status);

int cuDriverGetVersion(int *version)
{
    *version = VERSION;
    return SUCCESS;
}

int cuInit(unsigned flags)
{
    (void)flags;
    return SUCCESS;
}

int cuGetProcAddress_v2(const char *name, void (**out)(void), int version,
                        uint64_t flags, int *status)
{
    *out = NULL;
    if (strcmp(name, "cuDriverGetVersion") == 0)
        *out = (void (*)(void))cuDriverGetVersion;
    else if (strcmp(name, "cuInit") == 0)
        *out = (void (*)(void))cuInit;
    else if (strcmp(name, "cuGetProcAddress") == 0)
        *out = (void (*)(void))cuGetProcAddress_v2;
    (void)version;
    (void)flags;
    if (status)
        *status = *out ? 0 : 1;
    return *out ? SUCCESS : NOT_FOUND;
}
