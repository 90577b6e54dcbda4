/* The text loader, the cleaner and the chunker on any bytes. */
#include "load_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    load_fuzz(BW_MEDIA_TEXT, data, size);
    return 0;
}
