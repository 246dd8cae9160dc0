// The libcuda.so.1 of a simulated machine: the driver calls by which programs find out what GPUs there are,
// answered from the machine's facts file (simulator/gpu_facts.hpp). Nothing is computed on it. It calls no C
// library at all, so any loader of any age can load it.
typedef int CUresult;
typedef int CUdevice;
typedef void* CUcontext;
typedef unsigned long size_type;

#define EXPORT __attribute__((visibility("default")))
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
};

// --- the kernel, without a C library
// --------------------------------------------------------------------------

#if defined(__x86_64__)
static long call3(long n, long a, long b, long c) {
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return r;
}
static long sys_open(const char* path) {
    return call3(2, (long)path, 0, 0);
}
static long sys_read(long fd, char* into, unsigned long n) {
    return call3(0, fd, (long)into, (long)n);
}
static void sys_close(long fd) {
    call3(3, fd, 0, 0);
}
#elif defined(__aarch64__)
static long call4(long n, long a, long b, long c, long d) {
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
static long sys_open(const char* path) {
    return call4(56, -100, (long)path, 0, 0);
}
static long sys_read(long fd, char* into, unsigned long n) {
    return call4(63, fd, (long)into, (long)n, 0);
}
static void sys_close(long fd) {
    call4(57, fd, 0, 0, 0);
}
#else
#error "no system calls for this architecture"
#endif

static long slurp(const char* path, char* into, unsigned long size) {
    const long fd = sys_open(path);
    if (fd < 0) return -1;
    unsigned long n = 0;
    while (n + 1 < size) {
        const long got = sys_read(fd, into + n, size - 1 - n);
        if (got <= 0) break;
        n += (unsigned long)got;
    }
    sys_close(fd);
    into[n] = 0;
    return (long)n;
}

// The compiler may turn loops into calls of these two.
__attribute__((visibility("hidden"))) void* memset(void* into, int value, size_type n) {
    volatile char* p = into;
    while (n-- > 0) *p++ = (char)value;
    return into;
}
__attribute__((visibility("hidden"))) void* memcpy(void* into, const void* from, size_type n) {
    volatile char* p = into;
    const char* q = from;
    while (n-- > 0) *p++ = *q++;
    return into;
}

// --- facts
// ----------------------------------------------------------------------------------------------------

#define GPUS_MAX 64
struct gpu {
    char name[128];
    unsigned char uuid[16];
    unsigned long memory;  // bytes
    int cc, bus;
};
static struct gpu gpus[GPUS_MAX];
static int gpu_count;
static int cuda_version;
static int init_result;
static int initialised;
static char text[65536];

static int starts(const char* p, const char* with) {
    while (*with != 0) {
        if (*p++ != *with++) return 0;
    }
    return 1;
}

static unsigned long number(const char* p) {
    unsigned long n = 0;
    while (*p >= '0' && *p <= '9') n = n * 10 + (unsigned long)(*p++ - '0');
    return n;
}

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

// Field `n` of a row with bars; points into the row.
static const char* field(const char* row, int n) {
    while (n > 0 && *row != 0 && *row != '\n') {
        if (*row == '|') --n;
        ++row;
    }
    return row;
}

static void read_gpu(const char* row) {
    if (gpu_count >= GPUS_MAX) return;
    struct gpu* g = &gpus[gpu_count++];
    const char* p = field(row, 1);
    if (starts(p, "GPU-")) p += 4;
    int half = 0;
    for (; half < 32 && *p != '|' && *p != 0; ++p) {
        const int v = hex(*p);
        if (v < 0) continue;
        g->uuid[half / 2] = (unsigned char)(half % 2 == 0 ? v << 4 : g->uuid[half / 2] | v);
        ++half;
    }
    p = field(row, 2);
    unsigned long n = 0;
    while (*p != '|' && *p != 0 && n + 1 < sizeof g->name) g->name[n++] = *p++;
    g->name[n] = 0;
    g->memory = number(field(row, 4)) * 1048576UL;
    g->cc = (int)number(field(row, 5));
    g->bus = gpu_count;
}

// Where the facts are: the variable (for machines without a root of their own), else the fixed place.
static long read_facts(void) {
    static char environment[65536];
    const long n = slurp("/proc/self/environ", environment, sizeof environment);
    for (long i = 0; i < n;) {
        if (starts(environment + i, "SIM_GPU_FACTS="))
            return slurp(environment + i + 14, text, sizeof text);
        while (i < n && environment[i] != 0) ++i;
        ++i;
    }
    return slurp("/run/gpuferry-sim/gpus", text, sizeof text);
}

static void load(void) {
    gpu_count = 0;
    init_result = NO_DEVICE;
    if (read_facts() < 0) return;
    init_result = SUCCESS;
    for (const char* line = text; *line != 0;) {
        if (starts(line, "cuda ")) cuda_version = (int)number(line + 5);
        if (starts(line, "cuinit ")) init_result = (int)number(line + 7);
        if (starts(line, "broken 1")) init_result = NO_DEVICE;
        if (starts(line, "gpu ")) read_gpu(line + 4);
        while (*line != 0 && *line != '\n') ++line;
        if (*line == '\n') ++line;
    }
    if (init_result == SUCCESS && gpu_count == 0) init_result = NO_DEVICE;
}

static CUresult check(CUdevice device) {
    if (!initialised) return NOT_INITIALIZED;
    return device < 0 || device >= gpu_count ? INVALID_DEVICE : SUCCESS;
}

// --- the driver API
// -------------------------------------------------------------------------------------------

EXPORT CUresult cuInit(unsigned flags) {
    if (flags != 0) return INVALID_VALUE;
    load();
    if (init_result == SUCCESS) initialised = 1;
    return init_result;
}

EXPORT CUresult cuDriverGetVersion(int* version) {
    if (version == 0) return INVALID_VALUE;
    if (cuda_version == 0) load();
    *version = cuda_version;
    return SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int* count) {
    if (!initialised) return NOT_INITIALIZED;
    if (count == 0) return INVALID_VALUE;
    *count = gpu_count;
    return SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    const CUresult r = check(ordinal);
    if (r == SUCCESS) *device = ordinal;
    return r;
}

EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
    const CUresult r = check(device);
    if (r != SUCCESS || length <= 0) return r != SUCCESS ? r : INVALID_VALUE;
    int i = 0;
    for (; i + 1 < length && gpus[device].name[i] != 0; ++i) name[i] = gpus[device].name[i];
    name[i] = 0;
    return SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_type* bytes, CUdevice device) {
    const CUresult r = check(device);
    if (r == SUCCESS) *bytes = gpus[device].memory;
    return r;
}

EXPORT CUresult cuDeviceTotalMem(unsigned* bytes, CUdevice device) {
    // The first version of the call answers in 32 bits.
    const CUresult r = check(device);
    if (r == SUCCESS)
        *bytes = gpus[device].memory > 0xffffffffUL ? 0xffffffffU : (unsigned)gpus[device].memory;
    return r;
}

EXPORT CUresult cuDeviceGetUuid(void* uuid, CUdevice device) {
    const CUresult r = check(device);
    if (r == SUCCESS) memcpy(uuid, gpus[device].uuid, 16);
    return r;
}
EXPORT CUresult cuDeviceGetUuid_v2(void* uuid, CUdevice device) {
    return cuDeviceGetUuid(uuid, device);
}

EXPORT CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
    const CUresult r = check(device);
    if (r != SUCCESS) return r;
    switch (attribute) {
        case 1:
            *value = 1024;
            break;  // max threads per block
        case 10:
            *value = 32;
            break;  // warp size
        case 16:
            *value = 128;
            break;  // multiprocessors
        case 33:
            *value = gpus[device].bus;
            break;  // PCI bus id
        case 34:
        case 50:
            *value = 0;
            break;  // PCI device and domain id
        case 75:
            *value = gpus[device].cc / 100;
            break;  // compute capability, major
        case 76:
            *value = gpus[device].cc / 10 % 10;
            break;  // minor
        default:
            *value = 0;
            break;
    }
    return SUCCESS;
}

EXPORT CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
    const CUresult r = check(device);
    if (r == SUCCESS) {
        *major = gpus[device].cc / 100;
        *minor = gpus[device].cc / 10 % 10;
    }
    return r;
}

static int context_of[GPUS_MAX];
static CUcontext current;

EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
    (void)flags;
    const CUresult r = check(device);
    if (r != SUCCESS) return r;
    context_of[device] = device;
    *context = current = &context_of[device];
    return SUCCESS;
}
EXPORT CUresult cuCtxCreate(CUcontext* context, unsigned flags, CUdevice device) {
    return cuCtxCreate_v2(context, flags, device);
}
EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
    if (context == 0) return INVALID_CONTEXT;
    if (context == current) current = 0;
    return SUCCESS;
}
EXPORT CUresult cuCtxDestroy(CUcontext context) {
    return cuCtxDestroy_v2(context);
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    return cuCtxCreate_v2(context, 0, device);
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    return check(device);
}
EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    return check(device);
}
EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    current = context;
    return initialised ? SUCCESS : NOT_INITIALIZED;
}
EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
    *context = current;
    return initialised ? SUCCESS : NOT_INITIALIZED;
}
EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
    if (current == 0) return INVALID_CONTEXT;
    *device = *(const int*)current;
    return SUCCESS;
}
EXPORT CUresult cuCtxSynchronize(void) {
    return current == 0 ? INVALID_CONTEXT : SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_type* free_bytes, size_type* total) {
    if (current == 0) return INVALID_CONTEXT;
    *total = gpus[*(const int*)current].memory;
    *free_bytes = *total;
    return SUCCESS;
}

// Addresses stand for memory that is not there: enough for a probe that allocates and frees.
EXPORT CUresult cuMemAlloc_v2(unsigned long long* pointer, size_type bytes) {
    static unsigned long long next = 0x7f0000000000ULL;
    if (current == 0) return INVALID_CONTEXT;
    if (bytes == 0) return INVALID_VALUE;
    if (bytes > gpus[*(const int*)current].memory) return OUT_OF_MEMORY;
    *pointer = next;
    next += (bytes + 511) / 512 * 512;
    return SUCCESS;
}
EXPORT CUresult cuMemFree_v2(unsigned long long pointer) {
    (void)pointer;
    return current == 0 ? INVALID_CONTEXT : SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char** name) {
    switch (error) {
        case SUCCESS:
            *name = "CUDA_SUCCESS";
            return SUCCESS;
        case INVALID_VALUE:
            *name = "CUDA_ERROR_INVALID_VALUE";
            return SUCCESS;
        case OUT_OF_MEMORY:
            *name = "CUDA_ERROR_OUT_OF_MEMORY";
            return SUCCESS;
        case NOT_INITIALIZED:
            *name = "CUDA_ERROR_NOT_INITIALIZED";
            return SUCCESS;
        case NO_DEVICE:
            *name = "CUDA_ERROR_NO_DEVICE";
            return SUCCESS;
        case INVALID_DEVICE:
            *name = "CUDA_ERROR_INVALID_DEVICE";
            return SUCCESS;
        case INVALID_CONTEXT:
            *name = "CUDA_ERROR_INVALID_CONTEXT";
            return SUCCESS;
        case NOT_FOUND:
            *name = "CUDA_ERROR_NOT_FOUND";
            return SUCCESS;
        case 802:
            *name = "CUDA_ERROR_SYSTEM_NOT_READY";
            return SUCCESS;
        case 999:
            *name = "CUDA_ERROR_UNKNOWN";
            return SUCCESS;
        default:
            *name = 0;
            return INVALID_VALUE;
    }
}
EXPORT CUresult cuGetErrorString(CUresult error, const char** string) {
    if (error == 802) {
        *string = "system not yet initialized";
        return SUCCESS;
    }
    return cuGetErrorName(error, string);
}
