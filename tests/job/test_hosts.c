/* Ranks are counted per host of a configuration, and vp_shrink() writes a plan
 * without the hosts that were lost. */
#include "config/hosts.h"
#include "config/load.h"
#include "config/shrink.h"
#include "job/processes.h"
#include "lib/tempfolder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define NINE "model_type: bert\nlayers: 4\n"

static void load(const char *yaml, struct vp_config *out)
{
    struct vp_err err = { .text = "" };

    if (vp_config_parse("a.yml", yaml, strlen(yaml), NULL, 0, out, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
}

/* ---- Hosts of a configuration ------------------------------------------- */

static void test_hosts(void **state)
{
    struct vp_config config;

    (void)state;
    load(NINE "stages: 3\nmachines: ['localhost:0', '127.0.0.1:0', "
              "'localhost:1']\n",
         &config);
    assert_true(vp_hosts_are_here(&config));
    assert_false(vp_config_is_distributed(&config));
    assert_int_equal(vp_hosts_crowd(&config), 2);
    assert_int_equal(vp_hosts_run(&config, 0), 1);
    vp_config_release(&config);
    load(NINE "stages: 2\ndistributed_backend: nccl\n", &config);
    assert_true(vp_config_is_distributed(&config));
    assert_string_equal(vp_processes_transport(&config), "nccl");
    vp_config_release(&config);
    load(NINE "stages: 3\ndistributed_backend: gloo\n"
              "machines: ['n1:0', 'n1:1', 'localhost:1']\n",
         &config);
    assert_false(vp_hosts_are_here(&config));
    assert_true(vp_config_is_distributed(&config));
    assert_string_equal(vp_processes_transport(&config), "mpi");
    assert_int_equal(vp_hosts_run(&config, 0), 2);
    assert_int_equal(vp_hosts_run(&config, 2), 1);
    vp_config_release(&config);
}

/* ---- Plans for fewer hosts ---------------------------------------------- */

static bool is_g(void *ctx, const char *host)
{
    (void)ctx;
    return host[0] == 'g';
}

static bool is_any(void *ctx, const char *host)
{
    (void)ctx;
    return *host != '\0';
}

static void test_shrink(void **state)
{
    struct vp_config config, small;
    struct vp_err err = { .text = "" };
    int n;

    (void)state;
    load(NINE "partition: [4, 2, 2, 1]\nrecompute_ratio: [0.5, 0.25, 0, 0]\n"
              "swap_ratio: [0.75, 0, 0, 0]\n"
              "ranks: [3, 2, 1, 0]\naccumulation_steps: 6\n"
              "machines: ['a:0', 'g1:0', 'b:7', 'g2:3']\n",
         &config);
    assert_int_equal(vp_shrink(&config, is_g, NULL, "small.yml", &n, &err),
                     VP_OK);
    assert_int_equal(n, 2);
    if (vp_config_load("small.yml", NULL, 0, &small, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(small.stages, 2);
    assert_int_equal(small.partition.n, 2);
    assert_int_equal(small.partition.at[0] + small.partition.at[1], 9);
    assert_int_equal(small.recompute_ratio.n, 2);
    assert_true(small.recompute_ratio.at[1] == 0.5);
    assert_int_equal(small.swap_ratio.n, 2);
    assert_true(small.swap_ratio.at[1] == 0.75);
    assert_int_equal(small.ranks.n, 0);
    assert_int_equal(small.accumulation_steps, 6);
    assert_int_equal(small.machines.n, 2);
    assert_string_equal(small.machines.at[1].host, "b");
    assert_int_equal(small.machines.at[1].device, 7);
    assert_int_equal(small.distributed_backend, VP_TRANSPORT_MPI);
    vp_config_release(&small);
    assert_int_not_equal(vp_shrink(&config, is_any, NULL, "x.yml", &n, &err),
                         VP_OK);
    assert_string_equal(err.text, "no host of machines is left");
    vp_config_release(&config);
}

static bool is_b(void *ctx, const char *host)
{
    (void)ctx;
    return *host == 'b';
}

/* vp_shrink() removes whole tensor-parallel groups. */
static void test_shrink_groups(void **state)
{
    struct vp_config config, small;
    struct vp_err err = { .text = "" };
    int n;

    (void)state;
    load(NINE "optimizer: adam\nmp_size: 2\nstages: 3\n"
              "machines: ['a:0', 'g1:0', 'b:7', 'g2:3', 'c:0', 'd:0']\n",
         &config);
    assert_int_equal(vp_shrink(&config, is_b, NULL, "small.yml", &n, &err),
                     VP_OK);
    assert_int_equal(n, 4);
    if (vp_config_load("small.yml", NULL, 0, &small, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(small.stages, 2);
    assert_int_equal(small.mp_size, 2);
    assert_int_equal(small.machines.n, 4);
    vp_config_release(&small);
    vp_config_release(&config);
    load(NINE "optimizer: adam\nmp_size: 2\nmachines: ['a:0', 'b:0']\n",
         &config);
    assert_int_not_equal(vp_shrink(&config, is_b, NULL, "x.yml", &n, &err),
                         VP_OK);
    assert_string_equal(err.text, "fewer hosts of machines are left than a "
                                  "tensor-parallel group has ranks");
    vp_config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_shrink_groups),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
