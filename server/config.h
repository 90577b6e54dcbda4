/* The cell's configuration: one small file of `name = value` lines, `#` comments.
 *
 * Every setting is one row of a table in config.c (name, default, what it means), which
 * is also what `bailiwick config` prints. Unknown names and values out of range refuse
 * the start: a typo must not widen anything. Immutable after load. */
#ifndef BW_CONFIG_H
#define BW_CONFIG_H
#include "../policies/decision.h"

enum { BW_CONFIG_LIST_MAX = 32 };

typedef struct bw_config_list {
    bw_str items[BW_CONFIG_LIST_MAX];
    size_t n;
} bw_config_list;

typedef struct bw_config {
    /* cell: its own place */
    bw_str cell_id, cell_country, cell_operator;
    bw_config_list cell_certs, cell_hw;
    /* server */
    bw_str listen, prefix, tls_cert, tls_key;
    bw_config_list proxies, origins;
    uint64_t io_threads, workers, connections, connections_per_address;
    uint64_t headers_s, idle_s, rate_bytes, request_s, stop_s;
    /* data */
    bw_str data_folder;
    uint64_t open_partitions, seal_rows, exact_rows, vector_bytes;
    bw_str gpu;
    /* policies */
    bw_str packs_folder, policies_file, entities_file, catalogue_file;
    /* labels of what comes in */
    bw_str ingest_rules, labels_detect;
    /* model */
    bw_str model_folder;
    /* audit */
    uint64_t audit_segment_bytes;
    /* limits */
    uint64_t body_bytes, bodies_bytes, arena_bytes;
    bool dev; /* --dev; no setting of the file */
} bw_config;

typedef struct bw_config_override { /* --set name=value, later wins; and --listen,
                                       --data */
    const char *name, *value;
} bw_config_override;

/* text: the file's content, or none = defaults only. Strings are copied to ctx's arena,
 * which must live as long as *out. BW_EINVALID names the line. */
BW_MUST_USE bw_status bw_config_parse(bw_ctx *ctx, bw_str text,
                                      const bw_config_override *over, size_t nover,
                                      bw_config *out);
/* What must hold before a cell serves: place set, TLS or a stated proxy beyond
 * loopback. */
BW_MUST_USE bw_status bw_config_check_serve(bw_ctx *ctx, const bw_config *c);
/* The file with its documentation, defaults or the values of `c`. */
void bw_config_print(const bw_config *c, bw_buf *out);
/* "127.0.0.1:6333", "[::1]:6333": host without brackets in ctx's arena; *loopback
 * tells. */
BW_MUST_USE bw_status bw_listen_parse(bw_ctx *ctx, bw_str text, const char **host,
                                      uint16_t *port, bool *loopback);
void bw_config_place(const bw_config *c, bw_place *out); /* borrows from c */
#endif
