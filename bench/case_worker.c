#include "bench.h"

void case_worker(struct bench *bench)
{
    int n_mb = bench->n_mb ? bench->n_mb : 8;
    int partition[VP_MAX_STAGES];
    struct lab_spec spec = { .size = bench->size,
                             .schedule = bench->schedule,
                             .n_stages = bench->n_stages,
                             .partition = partition,
                             .n_mb = n_mb };
    struct lab *lab;
    char line[8];

    if (bench->n_stages > lab_n_blocks(&bench->size))
        lab_die("worker", &(struct vp_err){ "more stages than blocks" });
    lab_cut_measured(&spec, partition);
    lab = lab_open(&spec);
    lab_run(lab, n_mb);
    printf("{\"ready\": \"%s\", \"partition\": [", bench->schedule);
    for (int s = 0; s < bench->n_stages; s++)
        printf("%s%d", s ? ", " : "", partition[s]);
    puts("]}");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        printf("{\"seconds\": %.6f}\n", lab_run(lab, n_mb));
        fflush(stdout);
    }
    lab_close(lab);
}
