/* A market small enough to count by hand, for tests. */
#ifndef BW_TEST_MARKET_H
#define BW_TEST_MARKET_H
#include <policies/offers.h>

#define MARKET_FACT "\"source\":\"s\",\"date\":\"2026-01\"}"
/* p: two regions with a GPU type, two CPU types and an accelerator that holds no index */
static const char market_small[] =
    "{\"schema\":\"bailiwick.market/1\",\"date\":\"2026-01-02\","
    "\"entities\":[{\"id\":\"e\",\"seat\":\"FR\",\"control_zones\":[\"EU\"],\"foreign_share_max\":\"1.0\",\"foreign_share_sum\":\"2.5\",\"baa_with\":[\"t\"],\"certs\":[\"dpf\"]," MARKET_FACT
    ",{\"id\":\"dark\",\"seat\":null,\"control_zones\":null,\"foreign_share_max\":null,\"foreign_share_sum\":null," MARKET_FACT "],"
    "\"providers\":[{\"id\":\"p\",\"name\":\"P\",\"kind\":\"gpu-cloud\",\"entity\":\"e\",\"spot\":true,\"inference_api\":[\"tei\"]," MARKET_FACT "],"
    "\"regions\":[{\"id\":\"p:fr\",\"provider\":\"p\",\"country\":\"FR\",\"access\":\"general\",\"accelerators\":[\"GPU\"],\"hw\":[]," MARKET_FACT
    ",{\"id\":\"p:de\",\"provider\":\"p\",\"country\":\"DE\",\"access\":\"general\",\"accelerators\":null,\"operator\":\"dark\"," MARKET_FACT
    ",{\"id\":\"p:any\",\"provider\":\"p\",\"country\":null,\"access\":\"general\",\"accelerators\":null," MARKET_FACT "],"
    "\"cert_words\":[{\"name\":\"HDS\",\"word\":\"hds\"," MARKET_FACT ",{\"name\":\"BSI C5\",\"word\":\"c5\"," MARKET_FACT "],"
    "\"certifications\":[{\"id\":\"p/HDS\",\"provider\":\"p\",\"name\":\"HDS\",\"status\":\"held\",\"regions\":[\"p:fr\"]," MARKET_FACT
    ",{\"id\":\"p/C5\",\"provider\":\"p\",\"name\":\"BSI C5\",\"status\":\"held\",\"regions\":null,\"scope\":\"many\"," MARKET_FACT "],"
    "\"accelerators\":[{\"id\":\"GPU\",\"vendor\":\"nvidia\",\"kind\":\"gpu\",\"memory_gb\":100,\"memory_bw_gbs\":1000,\"fp16_tflops\":100,\"bf16_tflops\":null,\"int8_tops\":200," MARKET_FACT
    ",{\"id\":\"CHIP\",\"vendor\":\"aws\",\"kind\":\"asic\",\"memory_gb\":10,\"memory_bw_gbs\":100,\"fp16_tflops\":50,\"bf16_tflops\":50,\"int8_tops\":null," MARKET_FACT
    ",{\"id\":\"X86\",\"vendor\":\"cpu\",\"kind\":\"cpu\",\"isa\":[\"avx2\"],\"memory_gb\":null,\"memory_bw_gbs\":null,\"fp16_tflops\":null,\"bf16_tflops\":null,\"int8_tops\":null," MARKET_FACT
    ",{\"id\":\"ARM\",\"vendor\":\"cpu\",\"kind\":\"cpu\",\"isa\":[\"sve\"],\"memory_gb\":null,\"memory_bw_gbs\":null,\"fp16_tflops\":null,\"bf16_tflops\":null,\"int8_tops\":null," MARKET_FACT "],"
    "\"instances\":[{\"id\":\"p:gpu\",\"provider\":\"p\",\"accelerator\":\"GPU\",\"accelerator_count\":2,\"vcpu\":16,\"memory_gib\":100,\"spot\":true," MARKET_FACT
    ",{\"id\":\"p:cpu\",\"provider\":\"p\",\"accelerator\":\"X86\",\"accelerator_count\":0,\"vcpu\":8,\"memory_gib\":32,\"spot\":false," MARKET_FACT
    ",{\"id\":\"p:arm\",\"provider\":\"p\",\"accelerator\":\"ARM\",\"accelerator_count\":0,\"vcpu\":8,\"memory_gib\":32,\"spot\":false," MARKET_FACT
    ",{\"id\":\"p:chip\",\"provider\":\"p\",\"accelerator\":\"CHIP\",\"accelerator_count\":4,\"vcpu\":null,\"memory_gib\":null,\"spot\":false," MARKET_FACT "],"
    "\"prices\":[{\"instance\":\"p:gpu\",\"region\":\"p:fr\",\"market\":\"on-demand\",\"per_hour\":2,\"currency\":\"USD\"," MARKET_FACT
    ",{\"instance\":\"p:cpu\",\"region\":\"*\",\"market\":\"on-demand\",\"per_hour\":0.5,\"currency\":\"EUR\",\"stale\":true," MARKET_FACT
    ",{\"instance\":\"p:cpu\",\"region\":\"p:fr\",\"market\":\"on-demand\",\"per_hour\":0.25,\"currency\":\"EUR\"," MARKET_FACT
    ",{\"instance\":\"p:chip\",\"region\":\"p:fr\",\"market\":\"on-demand\",\"per_hour\":1,\"currency\":null," MARKET_FACT "],"
    "\"rates\":[{\"from\":\"EUR\",\"to\":\"USD\",\"value\":1.25," MARKET_FACT "]}";

/* `text`, with an overlay (or NULL) over it. */
static inline bw_status market_read(bw_ctx *ctx, const bw_catalogue *c, const char *text, const char *overlay, bw_market **out)
{
    const bw_market_file files[] = {{"market.json", bw_str_c(text)}, {"overlay.json", bw_str_c(overlay)}};
    return bw_market_load(ctx, c, files, overlay ? 2 : 1, out);
}
#endif
