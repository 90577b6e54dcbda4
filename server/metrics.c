/* /metrics, Prometheus text. The cell's figures are sums over all data, hidden data
 * too, so only a caller with Admin on the cell gets them; everybody else with a key
 * gets the two constant lines, the same bytes whatever the cell holds (threat 3). */
#include "v1.h"
#include <string.h>

static void counter(bw_buf *b, const char *name, const char *help, uint64_t value)
{
    bw_buf_printf(
        b, "# HELP bailiwick_%s %s\n# TYPE bailiwick_%s counter\nbailiwick_%s %llu\n",
        name, help, name, name, (unsigned long long)value);
}

static void gauge(bw_buf *b, const char *name, const char *help, uint64_t value)
{
    bw_buf_printf(
        b, "# HELP bailiwick_%s %s\n# TYPE bailiwick_%s gauge\nbailiwick_%s %llu\n",
        name, help, name, name, (unsigned long long)value);
}

/* What the engine's figures mean; a figure that is not here has its name alone. Those of
 * bytes are memory of the whole cell unless they say something else. */
static const struct {
    const char *name, *help;
} engine_help[] = {
    {"collections", "Collections."},
    {"partitions", "Partitions: one for each collection and class of data."},
    {"partitions_loaded", "Partitions in memory; the others have not been asked for."},
    {"partitions_stale", "Partitions that serve from memory until their file can be written."},
    {"files_open", "Files of partitions that are open."},
    {"points", "Points of the loaded partitions."},
    {"rows_dead", "Rows replaced or deleted and not yet merged away."},
    {"segments_sealed", "Sealed segments."},
    {"merges_pending", "Merges of segments that wait or run."},
    {"graphs_serving", "Indexes that serve."},
    {"graphs_pending", "Indexes that wait or are being built."},
    {"graphs_retrying", "Indexes whose build failed and will be tried again."},
    {"graph_builds_failed", "Builds of indexes that failed."},
    {"graph_files_refused", "Saved indexes that did not verify and were built anew."},
    {"vector_bytes", "Vectors in memory."},
    {"vector_bytes_max", "The setting data.vector_bytes; 0 = no limit."},
    {"code_bytes", "Codes of 4 bits."},
    {"graph_bytes", "Indexes, with what their searches keep for the next."},
    {"id_bytes", "Ids of points."},
    {"row_bytes", "What is kept of each row besides its vectors."},
    {"sparse_bytes", "Inverted lists of sparse vectors."},
    {"word_bytes", "Inverted lists of texts."},
    {"payload_index_bytes", "Indexes of payload fields."},
    {"block_cache_bytes", "Vectors read from files and kept for the next search."},
    {"block_cache_bytes_max", "The most that the block cache takes."},
    {"block_cache_hits", "Blocks found in the block cache."},
    {"block_cache_misses", "Blocks read from a file."},
    {"memory_bytes", "All of the above kinds of memory together."},
    {"file_bytes", "Vectors that lie in files and are read by block."},
    {"blocks_damaged", "Blocks that did not verify when they were read."},
    {"row_files_damaged", "Files of vectors found damaged."},
    {"row_files_healed", "Files of vectors written again from the partition's own file."},
    {"row_files_not_healed", "Files of vectors that could not be written again."},
    {"gpu_devices", "GPUs that serve."},
    {"gpu_devices_lost", "GPUs that were lost and are not used any more."},
    {"gpu_queries_queued", "Queries that wait for a GPU."},
    {"gpu_queries", "Queries that a GPU answered, once for each GPU that took part."},
    {"gpu_batches", "Batches of queries that GPUs ran."},
    {"gpu_widened", "Queries repeated with more room for want of a certificate."},
    {"gpu_fallbacks", "Blocks of queries that the CPU scanned, for any reason."},
    {"gpu_uploads", "Writes of rows to GPUs."},
    {"gpu_upload_bytes", "Bytes of rows written to GPUs."},
    {"gpu_segments", "Blocks of rows that lie on GPUs."},
    {"gpu_segments_evicted", "Blocks of rows that made room for others."},
    {"gpu_segments_refused", "Blocks of rows that found no room."},
    {"gpu_segment_bytes", "Rows on GPUs; not in memory_bytes."},
    {"gpu_bitset_bytes", "Filters on GPUs; not in memory_bytes."},
    {"cuvs_builds", "Indexes that cuVS built."},
    {"cuvs_builds_refused", "Indexes that cuVS had no room or no device for."},
    {"cuvs_searches", "Searches that cuVS answered."},
    {"cuvs_batches", "Calls of cuVS that took them."},
    {"cuvs_fallbacks", "Searches scanned since cuVS failed or found too few."},
    {"cuvs_device_bytes", "Held on the GPU for cuVS; not in memory_bytes."},
};

static const char *engine_help_of(const char *name)
{
    for (size_t i = 0; i < sizeof engine_help / sizeof *engine_help; i++)
        if (strcmp(engine_help[i].name, name) == 0)
            return engine_help[i].help;
    if (strncmp(name, "gpu_fallbacks_", sizeof "gpu_fallbacks_" - 1) == 0)
        return "Blocks of queries that the CPU scanned, for this reason.";
    return "Of the engine.";
}

static bw_status engine_figures(bw_request *r, bw_buf *b)
{
    bw_engine_figures *all = bw_arena_alloc(r->ctx, sizeof *all);
    if (!all)
        return bw_fail_nomem(r->ctx);
    bw_engine_figures_get(r->server->engine, all);
    for (size_t i = 0; i < all->n; i++) {
        const bw_engine_figure *f = &all->each[i];
        const char *name = bw_arena_printf(r->ctx, "engine_%s", f->name);
        if (!name)
            return bw_fail_nomem(r->ctx);
        gauge(b, name, engine_help_of(f->name), f->value);
    }
    return BW_OK;
}

static uint64_t load(const _Atomic uint64_t *v)
{
    return atomic_load_explicit(v, memory_order_relaxed);
}

static void decision_figures(bw_authority *a, bw_buf *b)
{
    bw_authority_figures f;
    bw_authority_figures_get(a, &f);
    counter(b, "decisions_kept_total", "Decisions and permitted sets found ready.",
            f.cached);
    counter(b, "decisions_made_total", "Single decisions made anew.", f.decisions);
    counter(b, "permitted_sets_made_total", "Permitted sets made anew.", f.sets);
    counter(b, "permits_errored_total",
            "Permits that could not be evaluated, and were skipped.",
            f.permits_errored);
    counter(b, "forbids_errored_total",
            "Forbids that could not be evaluated, and denied.", f.forbids_errored);
    counter(b, "undecidable_total",
            "Questions denied since the policies could not be asked.", f.undecided);
    gauge(b, "decisions_kept_bytes", "Memory of kept answers and classes.", f.bytes);
}

bw_status bw_metrics(bw_request *r, bw_response *out)
{
    bw_server *s = r->server;
    bw_counters *c = &s->counters;
    bw_buf *b = &out->body;
    bw_question q;
    bw_decision d = {.allow = true};
    uint64_t seq;
    uint8_t head[BW_AUDIT_HASH];
    out->content_type = "text/plain; version=0.0.4";
    bw_buf_puts(
        b, "# TYPE app_info gauge\napp_info{name=\"bailiwick\",version=\"" BW_VERSION
           "\"} 1\n");
    if (!s->config.dev) {
        bw_gate__question(r, BW_ACTION_ADMIN, &q);
        bw_status st =
            bw_decide_object(r->ctx, s->authority, &q, "Node",
                             r->caller->principal.tenant, s->config.cell_id, &d);
        if (st != BW_OK)
            return st;
    }
    if (!d.allow)
        return bw_v1_done(r, out);
    counter(b, "requests_total", "Requests whose headers arrived.", load(&c->requests));
    for (unsigned i = 1; i < 6; i++)
        bw_buf_printf(b, "bailiwick_answers_total{class=\"%uxx\"} %llu\n", i,
                      (unsigned long long)load(&c->by_class[i]));
    counter(b, "answered_brief_total", "Requests answered on the thread that read them.",
            load(&c->answered_brief));
    counter(b, "refused_key_total", "Requests without a valid key.",
            load(&c->refused_key));
    counter(b, "refused_framing_total", "Requests that the framing guard refused.",
            load(&c->refused_framing));
    counter(b, "refused_busy_total", "Connections and requests over a limit.",
            load(&c->refused_busy));
    counter(b, "reaped_total", "Shutdowns of connections past a deadline.",
            load(&c->reaped));
    counter(b, "denied_total", "Requests that ended in a denial.", load(&c->denied));
    counter(b, "audit_failures_total",
            "Requests refused since the log could not be written.",
            load(&c->audit_failures));
    counter(b, "body_bytes_total", "Bytes of request bodies.", load(&c->bytes_in));
    counter(b, "answer_bytes_total", "Bytes of answers.", load(&c->bytes_out));
    gauge(b, "connections", "Open connections.",
          (uint64_t)atomic_load_explicit(&c->connections, memory_order_relaxed));
    bw_audit_head(s->audit, &seq, head);
    counter(b, "audit_events_total", "Number of the last audit event.", seq);
    if (s->authority)
        decision_figures(s->authority, b);
    bw_status st = engine_figures(r, b);
    return st == BW_OK ? bw_v1_done(r, out) : st;
}
