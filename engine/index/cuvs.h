/* The kind "cuvs-cagra": what a cell and its operator may ask about it.
 *
 * CAGRA graphs (Ootomo et al. 2023, arXiv 2308.15136) by NVIDIA's cuVS, which is opened
 * at run time where it is installed. Only for collections that ask for it by name: which
 * rows it proposes may vary, so nothing chooses it by itself. What comes back are rows
 * of the caller's bitmap with keys from our kernels, as with every kind. */
#ifndef BW_CUVS_H
#define BW_CUVS_H
#include "../base/base.h"

typedef enum bw_cuvs_reason { /* why cuVS is not used */
    BW_CUVS_READY = 0,
    BW_CUVS_OFF,            /* switched off */
    BW_CUVS_NO_DRIVER,      /* libcuda.so.1 is not there */
    BW_CUVS_DRIVER_FAILED,  /* cuInit said no, or it is no driver */
    BW_CUVS_NO_DEVICE,      /* the driver sees no GPU */
    BW_CUVS_OLD_DRIVER,     /* older than CUDA 13.0 */
    BW_CUVS_NO_LIBRARY,     /* libcuvs_c.so or one that it needs is not there, or not safe */
    BW_CUVS_OTHER_ABI,      /* not 26.08 to 26.x */
    BW_CUVS_MISSING_SYMBOL,
    BW_CUVS_RUNTIME_FAILED, /* the device refused its first work, or is lost */
} bw_cuvs_reason;
enum { BW_CUVS_NREASONS = 10, BW_CUVS_TEXT_MAX = 512 };

const char *bw_cuvs_reason_text(uint32_t reason); /* a few words, never NULL */
/* Finds and opens the libraries (once a process: later calls give the first answer, or
 * that the device was lost since). One line for an operator. Where there is no GPU it
 * costs a millisecond; where there is one, some 0.4 s and 360 MB. Thread-safe. */
bw_cuvs_reason bw_cuvs_probe(char text[BW_CUVS_TEXT_MAX]);
/* False: never open anything; answers BW_CUVS_OFF. Before the first probe or build. */
void bw_cuvs_switch(bool on);

typedef struct bw_cuvs_stats {
    uint64_t builds, refused;   /* indexes made; builds that gave BW_EUNAVAILABLE */
    uint64_t searches, batches; /* answered from the device; calls of cuVS that took */
    uint64_t widened;           /* too few rows came back: once more with a larger itopk */
    uint64_t dropped;           /* places that named a row that is not allowed, or twice */
    uint64_t scans_filter;      /* scanned by plan: few allowed, k too large, no direction */
    uint64_t scans_short;       /* scanned because widening did not help */
    uint64_t scans_failed;      /* scanned because the device failed or was full */
    uint64_t device_bytes;      /* held in vectors and filters */
} bw_cuvs_stats;
void bw_cuvs_stats_get(bw_cuvs_stats *out);

/* ---- for tests ---- */
typedef struct bw_cuvs_places {
    const char *driver;  /* file of libcuda; NULL: the system's */
    const char *library; /* file of libcuvs_c; its folder must be trusted */
    const char *folder;  /* or a folder laid out as wheels lay it out */
} bw_cuvs_places;
/* Stops the device's threads, forgets the answer, and looks here from now on (NULL: in
 * the places of production). No index of the kind may exist. */
void bw_cuvs_places_use(const bw_cuvs_places *places);
#endif
