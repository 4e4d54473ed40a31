// A libcuda.so without a card: what IREE's runtime asks of NVIDIA's driver, kernels run by machine.cpp.
//
// One device of compute capability 8.0 (CALQUE_MACHINE_SM says another), one stream after another:
// everything has happened when a call returns.  A kernel's fault is printed, and every later call
// fails, as on a card.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <stdexcept>

#include "machine.h"

namespace {

std::mutex lock;
int lost = 0;  // an error that the device does not recover from
constexpr int kInvalid = 1, kMemory = 2, kNotFound = 500, kUnsupported = 801, kIllegal = 700, kPtx = 218;

struct Function { std::shared_ptr<ptx::Entry> entry; };
struct Loaded { std::shared_ptr<ptx::Module> module; };
using Pointer = unsigned long long;

int Take(void** out, size_t size) {
  std::lock_guard<std::mutex> held(lock);
  void* p = nullptr;
  if (posix_memalign(&p, 512, size + 512)) return kMemory;
  memset(p, 0xFF, size + 512);  // what is read before it is written shows
  machine::allocations[reinterpret_cast<uint64_t>(p)] = size;
  *out = p;
  return 0;
}

std::deque<std::pair<void*, size_t>> given;  // not used again for a while: late readers are seen
size_t given_bytes = 0;

int Give(void* p) {
  std::lock_guard<std::mutex> held(lock);
  if (!p) return 0;
  auto found = machine::allocations.find(reinterpret_cast<uint64_t>(p));
  if (found == machine::allocations.end()) return kInvalid;
  given.emplace_back(p, found->second);
  given_bytes += found->second;
  machine::allocations.erase(found);
  while (given_bytes > 256u << 20) {
    given_bytes -= given.front().second;
    free(given.front().first);
    given.pop_front();
  }
  return 0;
}

int Capability() {
  const char* sm = getenv("CALQUE_MACHINE_SM");
  return sm ? atoi(sm) : 80;
}

}  // namespace

extern "C" {

int cuGetErrorName(int, const char** s) { *s = "CUDA_ERROR"; return 0; }
int cuGetErrorString(int, const char** s) { *s = "the machine without a card says no"; return 0; }
int cuDriverGetVersion(int* v) { *v = 13000; return 0; }
int cuInit(unsigned) { return 0; }
int cuCtxCreate(void** c, unsigned, int) { *c = &lost; return 0; }
int cuCtxDestroy(void*) { return 0; }
int cuDevicePrimaryCtxRetain(void** c, int) { *c = &lost; return 0; }
int cuDevicePrimaryCtxRelease(int) { return 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuCtxPushCurrent(void*) { return 0; }
int cuCtxPopCurrent(void** c) { if (c) *c = &lost; return 0; }
int cuDeviceGet(int* d, int) { *d = 0; return 0; }
int cuDeviceGetCount(int* n) { *n = 1; return 0; }
int cuDeviceGetName(char* s, int n, int) { snprintf(s, n, "no card (sm_%d)", Capability()); return 0; }
int cuDeviceTotalMem_v2(size_t* n, int) { *n = 8ull << 30; return 0; }
int cuDeviceGetUuid(void* u, int) { memset(u, 7, 16); return 0; }
int cuDeviceGetAttribute(int* v, int a, int) {
  switch (a) {
    case 75: *v = Capability() / 10; break;  // compute capability
    case 76: *v = Capability() % 10; break;
    case 10: *v = 32; break;                 // warp
    case 1: case 2: case 3: *v = 1024; break;  // threads of a block, along x and y,
    case 4: *v = 64; break;                  // and z
    case 5: *v = 2147483647; break;          // blocks
    case 6: case 7: *v = 65535; break;
    case 16: *v = 4; break;                  // multiprocessors
    case 8: *v = 48 << 10; break;
    case 97: *v = 163 << 10; break;          // shared memory of a block, where asked for
    case 115: *v = 1; break;                 // memory pools
    case 89: *v = 1; break;                  // concurrent managed access
    case 83: *v = 1; break;                  // managed memory
    default: *v = 1;
  }
  return 0;
}
int cuEventCreate(void** e, unsigned) { *e = malloc(1); return 0; }
int cuEventDestroy(void* e) { free(e); return 0; }
int cuEventElapsedTime(float* ms, void*, void*) { *ms = 1; return 0; }
int cuEventQuery(void*) { return lost; }
int cuEventRecord(void*, void*) { return lost; }
int cuEventSynchronize(void*) { return lost; }
int cuMemAllocManaged(void** p, size_t n, unsigned) { return Take(p, n); }
int cuMemPrefetchAsync(Pointer, size_t, int, void*) { return 0; }
int cuMemAlloc(void** p, size_t n) { return Take(p, n); }
int cuMemFree(void* p) { return Give(p); }
int cuMemFreeHost(void* p) { return Give(p); }
int cuMemHostAlloc(void** p, size_t n, unsigned) { return Take(p, n); }
int cuMemHostRegister(void* p, size_t n, unsigned) {
  std::lock_guard<std::mutex> held(lock);
  machine::allocations[reinterpret_cast<uint64_t>(p)] = n;
  return 0;
}
int cuMemHostUnregister(void* p) {
  std::lock_guard<std::mutex> held(lock);
  machine::allocations.erase(reinterpret_cast<uint64_t>(p));
  return 0;
}
int cuMemHostGetDevicePointer(void** d, void* p, unsigned) { *d = p; return 0; }
int cuMemPoolCreate(void** p, const void*) { *p = malloc(1); return 0; }
int cuMemPoolDestroy(void* p) { free(p); return 0; }
int cuMemPoolSetAccess(void*, const void*, size_t) { return 0; }
int cuMemPoolGetAttribute(void*, int, void* v) { memset(v, 0, 8); return 0; }
int cuMemPoolSetAttribute(void*, int, void*) { return 0; }
int cuMemPoolTrimTo(void*, size_t) { return 0; }
int cuMemAllocFromPoolAsync(void** p, size_t n, void*, void*) { return Take(p, n); }
int cuMemFreeAsync(void* p, void*) { return Give(p); }
int cuStreamCreate(void** s, unsigned) { *s = malloc(1); return 0; }
int cuStreamDestroy(void* s) { free(s); return 0; }
int cuStreamSynchronize(void*) { return lost; }
int cuStreamWaitEvent(void*, void*, unsigned) { return lost; }
int cuMemsetD32Async(Pointer p, unsigned v, size_t n, void*) {
  for (size_t i = 0; i < n; i++) reinterpret_cast<unsigned*>(p)[i] = v;
  return lost;
}
int cuMemsetD16Async(Pointer p, unsigned short v, size_t n, void*) {
  for (size_t i = 0; i < n; i++) reinterpret_cast<unsigned short*>(p)[i] = v;
  return lost;
}
int cuMemsetD8Async(Pointer p, unsigned char v, size_t n, void*) {
  memset(reinterpret_cast<void*>(p), v, n);
  return lost;
}
int cuMemcpyAsync(Pointer to, Pointer from, size_t n, void*) {
  memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n);
  return lost;
}
int cuMemcpyHtoDAsync(Pointer to, const void* from, size_t n, void*) {
  memmove(reinterpret_cast<void*>(to), from, n);
  return lost;
}
int cuModuleLoadDataEx(void** m, const void* image, unsigned, int*, void**) {
  try {
    *m = new Loaded{ptx::Parse(static_cast<const char*>(image))};
    return 0;
  } catch (const std::exception& e) {
    fprintf(stderr, "machine: PTX: %s\n", e.what());
    return kPtx;
  }
}
int cuModuleUnload(void* m) { delete static_cast<Loaded*>(m); return 0; }
int cuModuleGetFunction(void** f, void* m, const char* name) {
  auto& entries = static_cast<Loaded*>(m)->module->entries;
  auto found = entries.find(name);
  if (found == entries.end()) return kNotFound;
  *f = new Function{found->second};
  return 0;
}
int cuModuleGetGlobal(void**, size_t*, void*, const char*) { return kNotFound; }
int cuFuncSetAttribute(void*, int, int) { return 0; }
int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void*, void** parameters, void**) {
  std::lock_guard<std::mutex> held(lock);
  if (lost) return lost;
  if (getenv("CALQUE_MACHINE_LOG"))
    fprintf(stderr, "machine: %s grid %u %u %u block %u %u %u shared %u\n",
            static_cast<Function*>(f)->entry->name.c_str(), gx, gy, gz, bx, by, bz, shared);
  try {
    machine::Launch(*static_cast<Function*>(f)->entry, {gx, gy, gz}, {bx, by, bz}, shared, parameters);
    return 0;
  } catch (const std::exception& e) {
    fprintf(stderr, "machine: %s\n", e.what());
    return lost = kIllegal;
  }
}
int cuLaunchHostFunc(void*, void (*f)(void*), void* data) { f(data); return lost; }

int cuGetProcAddress(const char* name, void** out, int, unsigned long long);

}  // extern "C"

#define NAMES(X) X(cuGetErrorName) X(cuGetErrorString) X(cuDriverGetVersion) X(cuInit) X(cuCtxCreate) \
  X(cuCtxDestroy) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent) \
  X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) \
  X(cuDeviceGetUuid) X(cuDeviceGetAttribute) X(cuEventCreate) X(cuEventDestroy) X(cuEventElapsedTime) \
  X(cuEventQuery) X(cuEventRecord) X(cuEventSynchronize) X(cuMemAllocManaged) X(cuMemPrefetchAsync) \
  X(cuMemAlloc) X(cuMemFree) X(cuMemFreeHost) X(cuMemHostAlloc) X(cuMemHostRegister) \
  X(cuMemHostUnregister) X(cuMemHostGetDevicePointer) X(cuMemPoolCreate) X(cuMemPoolDestroy) \
  X(cuMemPoolSetAccess) X(cuMemPoolGetAttribute) X(cuMemPoolSetAttribute) X(cuMemPoolTrimTo) \
  X(cuMemAllocFromPoolAsync) X(cuMemFreeAsync) X(cuStreamCreate) X(cuStreamDestroy) \
  X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuMemsetD32Async) X(cuMemsetD16Async) \
  X(cuMemsetD8Async) X(cuMemcpyAsync) X(cuMemcpyHtoDAsync) X(cuModuleLoadDataEx) X(cuModuleUnload) \
  X(cuModuleGetFunction) X(cuModuleGetGlobal) X(cuFuncSetAttribute) X(cuLaunchKernel) \
  X(cuLaunchHostFunc) X(cuGetProcAddress)

static int Unsupported() { return kUnsupported; }  // graphs, which no program of calque's is

extern "C" int cuGetProcAddress(const char* name, void** out, int, unsigned long long) {
#define X(f) if (!strcmp(name, #f)) { *out = reinterpret_cast<void*>(&f); return 0; }
  NAMES(X)
#undef X
  *out = reinterpret_cast<void*>(&Unsupported);
  return 0;
}
