// Stands in for a driver's libcuda in the probe's tests. Uses the C library and a thread, as the real one does.
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void* work(void* argument) {
    char* text = malloc(64);
    snprintf(text, 64, "%s", (const char*)argument);
    return text;
}
int cuInit(unsigned flags) {
    (void)flags;
    pthread_t thread;
    void* text = NULL;
    if (pthread_create(&thread, NULL, work, "hello") != 0 || pthread_join(thread, &text) != 0) return 999;
    const int wrong = strcmp(text, "hello") != 0 || getenv("LC_ALL") == NULL;
    free(text);
    if (wrong) return 999;
    if (FAKE_RESULT == -1)
        for (;;) pause();
    return FAKE_RESULT;
}
int cuDriverGetVersion(int* version) { return *version = 12080, 0; }
int cuDeviceGetCount(int* count) { return *count = 2, 0; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char* name, int length, int device) {
    (void)device;
    return snprintf(name, (size_t)length, "NVIDIA GeForce RTX 4090"), 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) { return *bytes = (size_t)24564 << 20, device * 0; }
