/* The one thread of a device: opens it, launches batches, sends rows, and lets it go.
 *
 * One query alone never waits for company: with nothing in flight it is launched at once.
 * While a batch runs, its own duration gathers the next; a second one may start when it
 * is full or its first query has waited for the window. Uploads fill the time in which
 * the device computes, a piece at a time.
 *
 * A device that is lost is closed and never opened again: what its context held is gone
 * and the process may have others in flight. Its queries go to the CPU. */
#include "gpu_private.h"
#include <stdio.h>
#include <time.h>

enum { PAUSE_NS = 20 * 1000 };

void gpu_pause(gpu_device *d)
{
    const struct timespec t = {0, PAUSE_NS};
    (void)pthread_mutex_unlock(&d->lock);
    (void)nanosleep(&t, NULL);
    (void)pthread_mutex_lock(&d->lock);
}

static void open_device(gpu_device *d)
{
    const bw_gpu_options o = {.device = d->index};
    const bw_gpu_host_options *h = &d->host->o;
    char text[BW_GPU_TEXT_MAX] = "";
    uint32_t reason = BW_GPU_FAILED;
    uint64_t available = 0, total = 0;
    bw_gpu *context = NULL;
    bw_gpu_status st = d->module->open(&o, &context, &reason, text);
    if (st == BW_GPU_OK)
        st = d->module->memory(context, &available, &total);
    if (st != BW_GPU_OK && context) {
        d->module->close(context);
        context = NULL;
    }
    (void)pthread_mutex_lock(&d->lock);
    d->context = context;
    d->life = context ? GPU_OPEN : GPU_GONE;
    d->segment_max = h->segment_bytes ? h->segment_bytes : available / 8 * 7;
    d->bits_max = h->bits_bytes ? h->bits_bytes : available / 32;
    (void)snprintf(d->text, sizeof d->text, "%.90s: %.60s", d->name, context ? "in use" : text);
    (void)pthread_mutex_unlock(&d->lock);
    bw_log(context ? BW_LOG_INFO : BW_LOG_WARN, "GPU %u: %s", d->index, d->text);
}

static bool may_launch(const gpu_device *d)
{
    const bw_gpu_host_options *o = &d->host->o;
    if (!d->first || d->nflying == BW_GPU_INFLIGHT_MAX)
        return false;
    return d->nflying == 0 || d->nqueued >= o->batch_max ||
           gpu_now(d) - d->first->since >= o->window_ns;
}

/* One round; the lock is held. OK, or LOST. */
static bw_gpu_status step(gpu_device *d)
{
    bw_gpu_status st = BW_GPU_OK;
    gpu_trash_empty(d);
    if (may_launch(d))
        st = gpu_batch_launch(d);
    if (st != BW_GPU_LOST && d->upload_first)
        st = gpu_segment_upload(d);
    if (st != BW_GPU_LOST && d->nflying > 0)
        return gpu_batch_wait(d);
    if (st == BW_GPU_AGAIN) {
        gpu_pause(d);
        return BW_GPU_OK;
    }
    return st;
}

bool gpu_has_work(const gpu_device *d)
{
    return d->life == GPU_OPEN && (d->first || d->nflying > 0 || d->upload_first ||
                                   d->trash_bits || d->trash_segments);
}

/* The device is no longer used; whoever waits goes on by the CPU. */
static void let_go(gpu_device *d, bool lost)
{
    bw_gpu *context = d->context;
    d->life = GPU_GONE;
    if (lost) {
        d->c.lost++;
        (void)snprintf(d->text, sizeof d->text, "%.90s: lost, not used any more", d->name);
        bw_log(BW_LOG_ERROR, "GPU %u: %s", d->index, d->text);
    }
    gpu_batches_fail(d, lost ? BW_GPU_WHY_LOST : BW_GPU_WHY_NO_DEVICE);
    d->context = NULL;
    (void)pthread_mutex_unlock(&d->lock);
    d->module->close(context);
    (void)pthread_mutex_lock(&d->lock);
    gpu_segments_clear(d);
}

void *gpu_worker(void *device)
{
    gpu_device *d = device;
    open_device(d);
    (void)pthread_mutex_lock(&d->lock);
    while (d->life == GPU_OPEN && !d->stop) {
        if (step(d) == BW_GPU_LOST) {
            let_go(d, true);
            break;
        }
        while (!d->stop && !gpu_has_work(d)) {
            d->resting = true;
            (void)pthread_cond_broadcast(&d->idle);
            (void)pthread_cond_wait(&d->wake, &d->lock);
            d->resting = false;
        }
    }
    if (d->life == GPU_OPEN)
        let_go(d, false);
    d->resting = true;
    (void)pthread_cond_broadcast(&d->idle);
    (void)pthread_mutex_unlock(&d->lock);
    return NULL;
}
