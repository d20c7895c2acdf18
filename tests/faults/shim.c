// Preloaded into a process, it makes the N-th system call on files below a folder fail, kill the
// process, or transfer less than it was asked to. tests/faults/injection.py has the Python side.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

// The same numbers as in injection.py.
enum {
  OPEN = 1,
  READ = 2,
  WRITE = 4,
  SYNC = 8,
  RENAME = 16,
  UNLINK = 32,
  MKDIR = 64,
  TRUNCATE = 128,
  STAT = 256
};
enum { NOTHING, FAIL, KILL, SHORTEN, FAIL_AFTERWARDS };

#define MAX_DESCRIPTORS 65536

static char prefix[4096];
static size_t prefix_bytes;
static unsigned operations;
static long nth;
static int action;
static int error_number;
static int is_sticky;
static atomic_long calls;
static atomic_int fired;  // operation of the first call that was hit
static atomic_char watched[MAX_DESCRIPTORS];

void shim_arm(const char* folder, unsigned mask, long number, int what, int error, int sticky) {
  snprintf(prefix, sizeof prefix, "%s", folder);
  prefix_bytes = strlen(prefix);
  operations = mask;
  nth = number;
  action = what;
  error_number = error;
  is_sticky = sticky;
  atomic_store(&calls, 0);
  atomic_store(&fired, 0);
}

void shim_disarm(void) { operations = 0; }

int shim_fired(void) { return atomic_load(&fired); }

static int is_below(const char* path) {
  return operations && path && strncmp(path, prefix, prefix_bytes) == 0;
}

static int is_watched(int descriptor) {
  return operations && descriptor >= 0 && descriptor < MAX_DESCRIPTORS &&
         atomic_load(&watched[descriptor]);
}

static int is_below_at(int folder, const char* path) {
  return path && path[0] == '/' ? is_below(path) : is_watched(folder);
}

// What to do with a call: NOTHING, FAIL, SHORTEN or FAIL_AFTERWARDS.
static int decide(unsigned operation, int is_meant) {
  if (!is_meant || !(operations & operation)) return NOTHING;
  long number = atomic_fetch_add(&calls, 1) + 1;
  if (number != nth && !(is_sticky && number > nth)) return NOTHING;
  int none = 0;
  atomic_compare_exchange_strong(&fired, &none, (int)operation);
  if (action == KILL) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  errno = error_number;
  return action;
}

#define REAL(result, name, ...)       \
  static result (*real)(__VA_ARGS__); \
  if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name);

// A call without a count of bytes.
#define CALL(operation, is_meant, call)   \
  int what = decide(operation, is_meant); \
  if (what == FAIL) return -1;            \
  int result = call;                      \
  if (what == FAIL_AFTERWARDS) {          \
    errno = error_number;                 \
    return -1;                            \
  }                                       \
  return result;

static int opened(int descriptor, int is_meant) {
  if (descriptor >= 0 && descriptor < MAX_DESCRIPTORS)
    atomic_store(&watched[descriptor], (char)(is_meant != 0));
  return descriptor;
}

#define OPEN_FUNCTION(name)                           \
  int name(const char* path, int flags, ...) {        \
    REAL(int, name, const char*, int, ...)            \
    va_list rest;                                     \
    va_start(rest, flags);                            \
    mode_t mode = va_arg(rest, mode_t);               \
    va_end(rest);                                     \
    int is_meant = is_below(path);                    \
    if (decide(OPEN, is_meant) == FAIL) return -1;    \
    return opened(real(path, flags, mode), is_meant); \
  }
OPEN_FUNCTION(open)
OPEN_FUNCTION(open64)

#define OPENAT_FUNCTION(name)                                 \
  int name(int folder, const char* path, int flags, ...) {    \
    REAL(int, name, int, const char*, int, ...)               \
    va_list rest;                                             \
    va_start(rest, flags);                                    \
    mode_t mode = va_arg(rest, mode_t);                       \
    va_end(rest);                                             \
    int is_meant = is_below_at(folder, path);                 \
    if (decide(OPEN, is_meant) == FAIL) return -1;            \
    return opened(real(folder, path, flags, mode), is_meant); \
  }
OPENAT_FUNCTION(openat)
OPENAT_FUNCTION(openat64)

int close(int descriptor) {
  REAL(int, close, int)
  if (descriptor >= 0 && descriptor < MAX_DESCRIPTORS) atomic_store(&watched[descriptor], 0);
  return real(descriptor);
}

static size_t shortened(size_t size) { return size > 1 ? size / 2 : size; }

#define BYTES(operation, call, size)                    \
  int what = decide(operation, is_watched(descriptor)); \
  if (what == FAIL) return -1;                          \
  if (what == SHORTEN) size = shortened(size);          \
  return call;

ssize_t read(int descriptor, void* data, size_t size){
    REAL(ssize_t, read, int, void*, size_t) BYTES(READ, real(descriptor, data, size), size)}

ssize_t write(int descriptor, const void* data, size_t size){
    REAL(ssize_t, write, int, const void*, size_t) BYTES(WRITE, real(descriptor, data, size), size)}
#define PREAD_FUNCTION(name, offset_t)                                     \
  ssize_t name(int descriptor, void* data, size_t size, offset_t offset) { \
    REAL(ssize_t, name, int, void*, size_t, offset_t)                      \
    BYTES(READ, real(descriptor, data, size, offset), size)                \
  }
PREAD_FUNCTION(pread, off_t) PREAD_FUNCTION(pread64, off64_t)

#define PWRITE_FUNCTION(name, offset_t)                                          \
  ssize_t name(int descriptor, const void* data, size_t size, offset_t offset) { \
    REAL(ssize_t, name, int, const void*, size_t, offset_t)                      \
    BYTES(WRITE, real(descriptor, data, size, offset), size)                     \
  }
    PWRITE_FUNCTION(pwrite, off_t) PWRITE_FUNCTION(pwrite64, off64_t)

// Of several buffers a short call transfers a part of the first one.
#define VECTOR(operation, call_all, call_first)                            \
  int what = decide(operation, is_watched(descriptor));                    \
  if (what == FAIL) return -1;                                             \
  if (what == SHORTEN && count > 0) {                                      \
    struct iovec first = {parts[0].iov_base, shortened(parts[0].iov_len)}; \
    return call_first;                                                     \
  }                                                                        \
  return call_all;

        ssize_t readv(int descriptor, const struct iovec* parts, int count){
            REAL(ssize_t, readv, int, const struct iovec*, int)
                VECTOR(READ, real(descriptor, parts, count), real(descriptor, &first, 1))}

ssize_t writev(int descriptor, const struct iovec* parts, int count){
    REAL(ssize_t, writev, int, const struct iovec*, int)
        VECTOR(WRITE, real(descriptor, parts, count), real(descriptor, &first, 1))}

#define VECTOR_AT_FUNCTION(operation, name, offset_t)                                              \
  ssize_t name(int descriptor, const struct iovec* parts, int count, offset_t offset) {            \
    REAL(ssize_t, name, int, const struct iovec*, int, offset_t)                                   \
    VECTOR(operation, real(descriptor, parts, count, offset), real(descriptor, &first, 1, offset)) \
  }
VECTOR_AT_FUNCTION(READ, preadv, off_t) VECTOR_AT_FUNCTION(READ, preadv64, off64_t)
    VECTOR_AT_FUNCTION(WRITE, pwritev, off_t) VECTOR_AT_FUNCTION(WRITE, pwritev64, off64_t)

#define VECTOR_FLAGS_FUNCTION(operation, name, offset_t)                                           \
  ssize_t name(int descriptor, const struct iovec* parts, int count, offset_t offset, int flags) { \
    REAL(ssize_t, name, int, const struct iovec*, int, offset_t, int)                              \
    VECTOR(operation, real(descriptor, parts, count, offset, flags),                               \
           real(descriptor, &first, 1, offset, flags))                                             \
  }
        VECTOR_FLAGS_FUNCTION(READ, preadv2, off_t) VECTOR_FLAGS_FUNCTION(READ, preadv64v2, off64_t)

// Processes end here, and machines do not, so nothing waits for the disk.
#define SYNC_FUNCTION(name) \
  int name(int descriptor) { CALL(SYNC, is_watched(descriptor), 0) }
            SYNC_FUNCTION(fsync) SYNC_FUNCTION(fdatasync) SYNC_FUNCTION(syncfs)

                int ftruncate(int descriptor, off_t size) {
  REAL(int, ftruncate, int, off_t)
  CALL(TRUNCATE, is_watched(descriptor), real(descriptor, size))
}

int ftruncate64(int descriptor, off64_t size) {
  REAL(int, ftruncate64, int, off64_t)
  CALL(TRUNCATE, is_watched(descriptor), real(descriptor, size))
}

int rename(const char* from, const char* to) {
  REAL(int, rename, const char*, const char*)
  CALL(RENAME, is_below(to), real(from, to))
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  REAL(int, renameat, int, const char*, int, const char*)
  CALL(RENAME, is_below_at(to_folder, to), real(from_folder, from, to_folder, to))
}

int link(const char* from, const char* to){REAL(int, link, const char*, const char*)
                                               CALL(RENAME, is_below(to), real(from, to))}
#define PATH_FUNCTION(operation, name)          \
  int name(const char* path) {                  \
    REAL(int, name, const char*)                \
    CALL(operation, is_below(path), real(path)) \
  }
PATH_FUNCTION(UNLINK, unlink) PATH_FUNCTION(UNLINK, rmdir)

    int unlinkat(int folder, const char* path, int flags) {
  REAL(int, unlinkat, int, const char*, int)
  CALL(UNLINK, is_below_at(folder, path), real(folder, path, flags))
}

int mkdir(const char* path, mode_t mode){REAL(int, mkdir, const char*, mode_t)
                                             CALL(MKDIR, is_below(path), real(path, mode))}

#define STAT_FUNCTION(name, type)                   \
  int name(const char* path, struct type* status) { \
    REAL(int, name, const char*, struct type*)      \
    CALL(STAT, is_below(path), real(path, status))  \
  }
STAT_FUNCTION(stat, stat) STAT_FUNCTION(lstat, stat) STAT_FUNCTION(stat64, stat64)
    STAT_FUNCTION(lstat64, stat64)

#define STATAT_FUNCTION(name, type)                                          \
  int name(int folder, const char* path, struct type* status, int flags) {   \
    REAL(int, name, int, const char*, struct type*, int)                     \
    CALL(STAT, is_below_at(folder, path), real(folder, path, status, flags)) \
  }
        STATAT_FUNCTION(fstatat, stat) STATAT_FUNCTION(fstatat64, stat64)
