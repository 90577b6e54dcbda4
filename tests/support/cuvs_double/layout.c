/* Prints the layouts and names that engine/index/cuvs_abi.h declares; with
 * -DREAL_CUVS_HEADERS those of NVIDIA's headers. tests/check_cuvs.sh compares the two. */
#include "engine/index/cuvs_abi.h"

#include <stdio.h>

#define SIZE(type) printf("size %s %zu\n", #type, sizeof(type))
#define AT(type, field) \
    printf("field %s.%s %zu %zu\n", #type, #field, offsetof(type, field), sizeof(((type *)0)->field))
#define VALUE(name) printf("value %s %d\n", #name, (int)name)
#define NAME(name, result, params) printf("symbol %s\n", #name);

typedef struct cuvsCagraIndexParams index_params;
typedef struct cuvsCagraSearchParams search_params;

int main(void)
{
    SIZE(DLTensor), SIZE(DLManagedTensor), SIZE(DLDataType), SIZE(DLDevice);
    AT(DLTensor, data), AT(DLTensor, device), AT(DLTensor, ndim), AT(DLTensor, dtype);
    AT(DLTensor, shape), AT(DLTensor, strides), AT(DLTensor, byte_offset);
    AT(DLManagedTensor, manager_ctx), AT(DLManagedTensor, deleter);
    SIZE(cuvsFilter), AT(cuvsFilter, addr), AT(cuvsFilter, type);
    SIZE(cuvsCagraIndex), AT(cuvsCagraIndex, dtype), SIZE(cuvsResources_t), SIZE(cuvsDataset_t);
    SIZE(index_params), AT(index_params, metric), AT(index_params, intermediate_graph_degree);
    AT(index_params, graph_degree), AT(index_params, build_algo);
    AT(index_params, nn_descent_niter), AT(index_params, graph_build_params);
    SIZE(search_params), AT(search_params, max_queries), AT(search_params, itopk_size);
    AT(search_params, max_iterations), AT(search_params, algo), AT(search_params, team_size);
    AT(search_params, search_width), AT(search_params, min_iterations);
    AT(search_params, thread_block_size), AT(search_params, hashmap_mode);
    AT(search_params, hashmap_min_bitlen), AT(search_params, hashmap_max_fill_rate);
    AT(search_params, num_random_samplings), AT(search_params, rand_xor_mask);
    AT(search_params, persistent), AT(search_params, persistent_lifetime);
    AT(search_params, persistent_device_usage);
    SIZE(CUdeviceptr), SIZE(CUresult), SIZE(CUstream);
    VALUE(CUVS_SUCCESS), VALUE(CUVS_LOG_LEVEL_ERROR), VALUE(L2Expanded), VALUE(NO_FILTER);
    VALUE(BITSET), VALUE(NN_DESCENT), VALUE(SINGLE_CTA), VALUE(AUTO), VALUE(AUTO_HASH);
    VALUE(kDLCPU), VALUE(kDLCUDA), VALUE(kDLUInt), VALUE(kDLInt), VALUE(kDLFloat);
    BW_CUVS_SYMBOLS(NAME)
    return 0;
}
