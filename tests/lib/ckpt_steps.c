#include "lib/ckpt_steps.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

int64_t newest_turn(struct notes *notes)
{
    struct vp_ckpt *ckpt = NULL;
    struct vp_err err = { .text = "" };
    int64_t step;

    notes->n = 0;
    if (vp_ckpt_open_newest(store(), take_note, notes, &ckpt, &err) != VP_OK)
        fail_msg("%s", err.text);
    check_state(ckpt);
    step = vp_ckpt_step(ckpt);
    vp_ckpt_close(ckpt);
    return step;
}

void save_three(void)
{
    struct vp_ckpt_writer *writer = open_writer(0);

    for (uint32_t turn = 1; turn <= 3; turn++)
        save_well(writer, 10 * turn, turn, (double)NAN);
    vp_ckpt_writer_free(writer);
}

const char *in_store(const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "checkpoints/%s", name);
    return at(path);
}
