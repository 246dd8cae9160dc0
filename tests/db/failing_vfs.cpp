#include "tests/db/failing_vfs.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <cstring>

namespace gf::test {
namespace {

sqlite3_vfs* g_real = nullptr;
sqlite3_vfs g_shim;
int g_left = 0;       // changing operations until the failure; 0 = healthy
int g_code = 0;
bool g_failed = false;

/// SQLite allocates szOsFile bytes: this header, and the real file behind it.
struct File {
    sqlite3_file base;
    sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
File* of(sqlite3_file* f) { return reinterpret_cast<File*>(f); }
const sqlite3_io_methods* methods(sqlite3_file* f) { return of(f)->real()->pMethods; }

int order() {
    if (g_left == 0) return SQLITE_OK;
    if (g_left > 1) {
        --g_left;
        return SQLITE_OK;
    }
    g_failed = true;
    return g_code;
}

int write(sqlite3_file* f, const void* data, int size, sqlite3_int64 at) {
    if (const int code = order(); code != SQLITE_OK) return code;
    return methods(f)->xWrite(of(f)->real(), data, size, at);
}
int truncate(sqlite3_file* f, sqlite3_int64 size) {
    if (const int code = order(); code != SQLITE_OK) return code;
    return methods(f)->xTruncate(of(f)->real(), size);
}
int sync(sqlite3_file* f, int flags) {
    if (const int code = order(); code != SQLITE_OK) return code;
    return methods(f)->xSync(of(f)->real(), flags);
}
int close(sqlite3_file* f) { return methods(f)->xClose(of(f)->real()); }
int read(sqlite3_file* f, void* data, int size, sqlite3_int64 at) {
    return methods(f)->xRead(of(f)->real(), data, size, at);
}
int file_size(sqlite3_file* f, sqlite3_int64* size) { return methods(f)->xFileSize(of(f)->real(), size); }
int lock(sqlite3_file* f, int level) { return methods(f)->xLock(of(f)->real(), level); }
int unlock(sqlite3_file* f, int level) { return methods(f)->xUnlock(of(f)->real(), level); }
int reserved(sqlite3_file* f, int* out) { return methods(f)->xCheckReservedLock(of(f)->real(), out); }
int control(sqlite3_file* f, int op, void* arg) { return methods(f)->xFileControl(of(f)->real(), op, arg); }
int sector(sqlite3_file* f) { return methods(f)->xSectorSize(of(f)->real()); }
int traits(sqlite3_file* f) { return methods(f)->xDeviceCharacteristics(of(f)->real()); }
int shm_map(sqlite3_file* f, int region, int size, int extend, void volatile** out) {
    return methods(f)->xShmMap(of(f)->real(), region, size, extend, out);
}
int shm_lock(sqlite3_file* f, int offset, int n, int flags) {
    return methods(f)->xShmLock(of(f)->real(), offset, n, flags);
}
void shm_barrier(sqlite3_file* f) { methods(f)->xShmBarrier(of(f)->real()); }
int shm_unmap(sqlite3_file* f, int remove) { return methods(f)->xShmUnmap(of(f)->real(), remove); }

constexpr sqlite3_io_methods kMethods{.iVersion = 2,
                                      .xClose = close,
                                      .xRead = read,
                                      .xWrite = write,
                                      .xTruncate = truncate,
                                      .xSync = sync,
                                      .xFileSize = file_size,
                                      .xLock = lock,
                                      .xUnlock = unlock,
                                      .xCheckReservedLock = reserved,
                                      .xFileControl = control,
                                      .xSectorSize = sector,
                                      .xDeviceCharacteristics = traits,
                                      .xShmMap = shm_map,
                                      .xShmLock = shm_lock,
                                      .xShmBarrier = shm_barrier,
                                      .xShmUnmap = shm_unmap,
                                      .xFetch = nullptr,
                                      .xUnfetch = nullptr};

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* f, int flags, int* out_flags) {
    f->pMethods = nullptr;
    const int code = g_real->xOpen(g_real, name, of(f)->real(), flags, out_flags);
    if (of(f)->real()->pMethods != nullptr) f->pMethods = &kMethods;
    return code;
}

}  // namespace

FailingVfs::FailingVfs() {
    REQUIRE(g_real == nullptr);
    g_real = sqlite3_vfs_find(nullptr);
    g_shim = *g_real;
    g_shim.szOsFile = static_cast<int>(sizeof(File)) + g_real->szOsFile;
    g_shim.zName = "gf-failing";
    g_shim.xOpen = open_file;
    heal();
    sqlite3_vfs_register(&g_shim, 1);
}

FailingVfs::~FailingVfs() {
    sqlite3_vfs_register(g_real, 1);
    sqlite3_vfs_unregister(&g_shim);
    g_real = nullptr;
}

void FailingVfs::fail_at(int nth, int code) {
    g_left = nth;
    g_code = code;
    g_failed = false;
}

void FailingVfs::heal() {
    g_left = 0;
    g_failed = false;
}

bool FailingVfs::failed() const { return g_failed; }

}  // namespace gf::test
