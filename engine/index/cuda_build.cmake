# Builds the GPU module with nvcc and refuses it when a kernel spills registers: run by the
# build with -DNVCC -DTARGETS -DCXX -DSOURCE -DOUT. ptxas's report stays beside the module.
#
# -fmad=false: no product and sum is fused but where the source says so, as on the CPU.
# Only the host code of cudart is linked in; the driver is found at run time.
get_filename_component(cxx "${CXX}" NAME)
set(host "")
if(NOT cxx MATCHES "clang") # nvcc takes what g++ it finds then
  set(host -ccbin "${CXX}")
endif()
execute_process(
  COMMAND "${NVCC}" ${TARGETS} ${host} -std=c++17 -O3 -fmad=false -Xptxas -v --threads 2 -shared -cudart static
    -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-fno-exceptions,-fno-rtti,-fstack-protector-strong
    -Xlinker -z,now,-z,relro,-z,noexecstack,--exclude-libs,ALL -o "${OUT}.new" "${SOURCE}"
  RESULT_VARIABLE rc OUTPUT_VARIABLE said ERROR_VARIABLE said)
file(WRITE "${OUT}.ptxas" "${said}")
if(rc)
  message(FATAL_ERROR "nvcc failed:\n${said}")
endif()
string(REGEX MATCHALL "bytes spill stores" reports "${said}")
string(REGEX MATCHALL "[1-9][0-9]* bytes spill [a-z]+" spills "${said}")
list(LENGTH reports kernels)
if(kernels EQUAL 0)
  message(FATAL_ERROR "no report of ptxas: is TARGETS without machine code?\n${said}")
endif()
if(spills)
  message(FATAL_ERROR "kernels spill registers (${spills}); see ${OUT}.ptxas")
endif()
file(RENAME "${OUT}.new" "${OUT}")
file(CHMOD "${OUT}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
message(STATUS "GPU module: ${kernels} kernels, none spills")
