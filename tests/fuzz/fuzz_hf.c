/* libFuzzer target: reads any bytes as model.safetensors.index.json, and as
 * config.json of a Hugging Face folder with valid tensors. Each is refused with
 * one line or is consistent. Runs in the root of the sources. */
#include "hf/folder.h"
#include "hf/index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static char folder[64];

static void put(const char *name, const void *bytes, size_t n)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "wb");
    VP_BUG_ON(!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0);
}

static void make_folder(void)
{
    static char bytes[1 << 16];
    FILE *file = fopen("tests/golden/hf/gpt2/model.safetensors", "rb");
    size_t n;

    VP_BUG_ON(!file);
    n = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    snprintf(folder, sizeof(folder), "/dev/shm/vpipe-fuzz-XXXXXX");
    VP_BUG_ON(!mkdtemp(folder));
    put("model.safetensors", bytes, n);
}

static void check_line(const struct vp_err *err)
{
    VP_BUG_ON(!err->text[0] || strchr(err->text, '\n'));
}

static void try_index(const char *bytes, size_t n)
{
    struct vp_err err = { .text = "" };
    struct vp_hf_index index;

    if (vp_hf_index_parse(bytes, n, &index, &err) != VP_OK) {
        check_line(&err);
        return;
    }
    for (int i = 0; i < index.n_places; i++) {
        const struct vp_hf_place *place = &index.places[i];

        VP_BUG_ON(vp_hf_index_find(&index, place->tensor) != place);
        VP_BUG_ON(place->file < 0 || place->file >= index.n_files);
        VP_BUG_ON(strchr(index.files[place->file], '/'));
    }
    vp_hf_index_release(&index);
}

static void try_config(const void *bytes, size_t n)
{
    struct vp_err err = { .text = "" };
    struct vp_hf_folder *model = NULL;

    if (!folder[0])
        make_folder();
    put("config.json", bytes, n);
    if (vp_hf_open(folder, &model, &err) != VP_OK)
        check_line(&err);
    vp_hf_close(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    try_index((const char *)bytes, n);
    try_config(bytes, n);
    return 0;
}
