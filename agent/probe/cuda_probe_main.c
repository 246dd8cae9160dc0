// The CUDA probe: a program without a C library of its own that the host's loader links to the host's libcuda.so.1.
// Prints "result N", "driver N", "count N", then "name …" and "memory N" per device; exits 0 when all calls worked. N of
// "result" is the first CUresult that was not 0, so that 802 (system not yet initialised) and the like can be told.
#include <stddef.h>

typedef int CUresult;
typedef int CUdevice;
extern CUresult cuInit(unsigned flags);
extern CUresult cuDriverGetVersion(int* version);
extern CUresult cuDeviceGetCount(int* count);
extern CUresult cuDeviceGet(CUdevice* device, int ordinal);
extern CUresult cuDeviceGetName(char* name, int length, CUdevice device);
extern CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device);

#if defined(__x86_64__)
enum { kWrite = 1, kExitGroup = 231 };
static long system_call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
enum { kWrite = 64, kExitGroup = 94 };
static long system_call(long number, long a, long b, long c) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}
#else
#error "no system calls for this architecture"
#endif
static void leave(int code) {
    for (;;) system_call(kExitGroup, code, 0, 0);  // libcuda has threads
}
static void put(const char* text, size_t length) {
    while (length > 0) {
        const long wrote = system_call(kWrite, 1, (long)text, (long)length);
        if (wrote <= 0) leave(3);
        text += wrote;
        length -= (size_t)wrote;
    }
}
static void put_text(const char* text) {
    size_t length = 0;
    while (text[length] != 0) ++length;
    put(text, length);
}
static void put_number(const char* key, unsigned long long value) {
    char digits[24];
    size_t at = sizeof digits;
    digits[--at] = '\n';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    put_text(key);
    put(digits + at, sizeof digits - at);
}
static void must(CUresult result) {
    if (result == 0) return;
    put_number("result ", (unsigned long long)result);
    leave(1);
}

__attribute__((used)) static void probe(void) {
    must(cuInit(0));
    int version = 0;
    must(cuDriverGetVersion(&version));
    put_number("driver ", (unsigned long long)version);
    int count = 0;
    must(cuDeviceGetCount(&count));
    put_number("count ", (unsigned long long)count);
    for (int i = 0; i < count; ++i) {
        CUdevice device = 0;
        must(cuDeviceGet(&device, i));
        static char name[256];
        must(cuDeviceGetName(name, (int)sizeof name - 1, device));
        put_text("name ");
        put_text(name);
        put_text("\n");
        size_t bytes = 0;
        must(cuDeviceTotalMem_v2(&bytes, device));
        put_number("memory ", bytes);
    }
    put_text("result 0\n");
    leave(0);
}

#if defined(__x86_64__)
__attribute__((naked, used)) void _start(void) {
    __asm__("xor %ebp, %ebp\n"
            "and $-16, %rsp\n"
            "call probe\n"
            "hlt\n");
}
#else
__attribute__((naked, used)) void _start(void) {
    __asm__("mov x29, #0\n"
            "mov x30, #0\n"
            "b probe\n");
}
#endif
