/* What vanished from a folder goes from the collection: `bailiwick ingest --mirror`. */
#ifndef BW_CLI_MIRROR_H
#define BW_CLI_MIRROR_H
#include "client.h"

typedef struct bw_mirror {
    const char *collection, *prefix; /* sources are prefix, '/', path */
    const char *const *paths;        /* what the folder holds, ascending by bytes */
    size_t npaths;
    bool dry_run;
    /* for each document that goes, would go (dry run) or may not: http 451 and why */
    void (*tell)(void *arg, const char *source, int http, const char *why);
    void *arg;
} bw_mirror;

/* Asks the cell for the sources below the prefix that this caller sees, then deletes those
 * that are not among the paths, each in one call. A 451 is told and the rest goes on; any
 * other failure ends it. A collection that is not there holds nothing. */
BW_MUST_USE bw_status bw_mirror_run(bw_ctx *ctx, bw_client *client, const bw_mirror *m);
#endif
