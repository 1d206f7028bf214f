/* Makes calls of unsafe libc functions compile errors. The build includes this
 * file before every source file. */
#ifndef VP_BASE_BANNED_H
#define VP_BASE_BANNED_H

#ifndef __cplusplus
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef strcpy
#define strcpy(...) vp_banned_strcpy_use_snprintf
#undef strcat
#define strcat(...) vp_banned_strcat_use_snprintf
#undef strncpy
#define strncpy(...) vp_banned_strncpy_use_snprintf
#undef sprintf
#define sprintf(...) vp_banned_sprintf_use_snprintf
#undef strtok
#define strtok(...) vp_banned_strtok_write_a_parser
#undef atoi
#define atoi(...) vp_banned_atoi_use_strtol
#undef atof
#define atof(...) vp_banned_atof_use_strtod
#undef system
#define system(...) vp_banned_system_use_posix_spawn
#undef popen
#define popen(...) vp_banned_popen_use_posix_spawn
#undef gets
#define gets(...) vp_banned_gets
#endif

#endif
