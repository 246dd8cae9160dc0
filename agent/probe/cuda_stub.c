// Stands in for libcuda.so.1 when the probe is linked, so that the build needs no driver. Never shipped, never run.
#include <stddef.h>
int cuInit(unsigned flags) { return (int)flags; }
int cuDriverGetVersion(int* version) { return *version; }
int cuDeviceGetCount(int* count) { return *count; }
int cuDeviceGet(int* device, int ordinal) { return *device + ordinal; }
int cuDeviceGetName(char* name, int length, int device) { return name[0] + length + device; }
int cuDeviceTotalMem_v2(size_t* bytes, int device) { return (int)*bytes + device; }
