/* Detectors over any bytes: looks and findings are bounded by the length, and the same
 * text is answered in the same way. */
#include "ingest/detect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bw_str text = {(const char *)data, size};
    bw_detected d, again;
    bw_detect(text, &d);
    bw_require(d.steps <= (uint64_t)BW_DETECT_STEPS * size);
    uint64_t found = 0;
    for (int k = 0; k < BW_DETECT_COUNT; k++)
        found += d.count[k];
    bw_require(found * 6 <= size); /* a@b.io */
    bw_detect(text, &again);
    bw_require(memcmp(&d, &again, sizeof d) == 0);
    return 0;
}
