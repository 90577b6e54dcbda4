/* How many descriptors the process may have, and what they are spent on: connections
 * and open partition files. Where the system allows fewer than the configuration wants,
 * both shrink to what fits, so that a busy cell waits instead of failing
 * (getrlimit(2)). Leaves out: the engine's own least-recently-used list
 * (engine/partition/pool.c). */
#include "server.h"
#include <sys/resource.h>
#include <unistd.h>

enum {
    SLACK_SHARE = 4, /* of the connections */
    SLACK_MIN = 2,
    SLACK_MAX = 64,      /* connections above the limit that get their 503, a thread */
    PARTITION_FILES = 3, /* database, write-ahead log, a journal while it is made */
    PARTITIONS_MIN = 4,  /* one a worker when there are few */
    CONNECTIONS_MIN = 8, /* as in config.c */
    FIXED = 24,          /* log, locks, catalogue, folders that are synced */
    FIXED_IO = 2,        /* an I/O thread's epoll and eventfd */
    COMFORT = 256,
    IO_THREADS_MAX = 64 /* as in config.c */
};

uint64_t bw_conn_slack(const bw_config *c)
{
    uint64_t slack = c->connections / SLACK_SHARE;
    return slack < SLACK_MIN ? SLACK_MIN : slack < SLACK_MAX ? slack : SLACK_MAX;
}

uint64_t bw_io_threads(const bw_config *c)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (c->io_threads > 0)
        return c->io_threads;
    return cpus < 2 ? 2 : cpus < IO_THREADS_MAX ? (uint64_t)cpus : IO_THREADS_MAX;
}

static uint64_t connection_files(const bw_config *c)
{
    return c->connections + bw_conn_slack(c) * bw_io_threads(c);
}

bw_status bw_descriptors_fit(bw_ctx *ctx, bw_config *c)
{
    struct rlimit rl;
    uint64_t fixed = FIXED + FIXED_IO * bw_io_threads(c);
    uint64_t want =
        connection_files(c) + c->open_partitions * PARTITION_FILES + COMFORT;
    uint64_t least = fixed + CONNECTIONS_MIN + SLACK_MIN * bw_io_threads(c) +
                     PARTITIONS_MIN * PARTITION_FILES;
    if (getrlimit(RLIMIT_NOFILE, &rl) != 0 || rl.rlim_cur >= want)
        return BW_OK;
    rl.rlim_cur = rl.rlim_max < want ? rl.rlim_max : (rlim_t)want;
    if (setrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur >= want)
        return BW_OK;
    if (getrlimit(RLIMIT_NOFILE, &rl) != 0 || rl.rlim_cur < least)
        return bw_fail(ctx, BW_EUNAVAILABLE,
                       "the limit on open files is %llu; at least %llu are needed",
                       (unsigned long long)rl.rlim_cur, (unsigned long long)least);
    uint64_t rest = rl.rlim_cur - fixed;
    uint64_t connections = rest / 2 * SLACK_SHARE / (SLACK_SHARE + bw_io_threads(c));
    if (connections < CONNECTIONS_MIN)
        connections = CONNECTIONS_MIN;
    if (connections < c->connections)
        c->connections = connections;
    uint64_t partitions = (rest - connection_files(c)) / PARTITION_FILES;
    if (partitions < c->open_partitions)
        c->open_partitions = partitions;
    bw_log(
        BW_LOG_WARN,
        "the limit on open files is low: %llu; %llu connections, %llu open partitions",
        (unsigned long long)rl.rlim_cur, (unsigned long long)c->connections,
        (unsigned long long)c->open_partitions);
    return BW_OK;
}
