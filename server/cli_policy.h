/* What `policy` and `doctor` share: an authority of a policy text over a data folder's
 * facts. Private to cli_*.c. */
#ifndef BW_CLI_POLICY_H
#define BW_CLI_POLICY_H
#include "server.h"

typedef struct bw_policy_bench {
    bw_pack pack;
    bw_str entities; /* the operator's, or none */
    bw_place at;
    bw_catalogue *catalogue;
    bw_authority *authority; /* NULL until a text was tried */
} bw_policy_bench;

/* The pack, the folder's facts (dir NULL: only what the configuration names) and the
 * cell's place: as configured, else somewhere in FR, since a place is needed to ask. */
BW_MUST_USE bw_status bw_policy_bench_open(bw_ctx *ctx, bw_config *c, const char *dir,
                                           bw_policy_bench *out);
BW_MUST_USE bw_status bw_policy_bench_try(bw_ctx *ctx, bw_policy_bench *b, bw_str policies);
void bw_policy_bench_close(bw_policy_bench *b);

int bw_cli_policy_test(int argc, char **argv);
int bw_cli_policy_replay(int argc, char **argv);
int bw_cli_policy_put(int argc, char **argv);
int bw_cli_policy_fmt(int argc, char **argv);
int bw_cli_policy_form(int argc, char **argv); /* policy json, policy from-json */
#endif
