/* LD_PRELOAD shim between a process and the files below FAULTS_ROOT, for the tests of what survives what.
 *
 * With FAULTS_JOURNAL it appends every change and every sync of those files to a journal, from which diskmodel.py
 * rebuilds what a disk may hold after the power was cut. With FAULTS_CONTROL, a file of `struct control` that the test
 * maps, it makes the disk full, syncs fail or take long, and shifts the wall clock. FAULTS_READ_ONLY is a path that can
 * only be read (permissions do not stop root, as whom CI runs). To all processes, the machine has run for a day longer.
 *
 * A change is noted after it was made and a sync before and after it: what the journal calls durable was durable.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPENED = 1, WROTE, TRUNCATED, SYNC_BEGUN, SYNCED, UNLINKED, RENAMED, LINKED, MADE_FOLDER, REMOVED_FOLDER, MAPPED };

struct control {
    int64_t clock_offset_ns;
    int32_t disk_full;
    int32_t sync_fails;
    int32_t sync_takes_us;
    int32_t refused; /* counts the calls that were made to fail, so that a test knows that some were */
};

struct __attribute__((packed)) record {
    uint32_t magic;
    uint8_t op;
    uint8_t unused;
    uint16_t path_length;
    uint64_t at_ns; /* CLOCK_MONOTONIC */
    uint64_t inode;
    int64_t offset;
    uint64_t length;
};

#define DESCRIPTORS 65536
static char *paths[DESCRIPTORS]; /* of the watched files that are open; NULL for others */
static char root[PATH_MAX];
static size_t root_length;
static int journal = -1;
static struct control none, *control = &none;

#define REAL(type, name, ...) \
    static type (*real_##name)(__VA_ARGS__); \
    if (!real_##name) real_##name = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static void fault(const char *what) {
    dprintf(2, "faults.c: %s: %s\n", what, strerror(errno));
    abort();
}

__attribute__((constructor)) static void begin(void) {
    const char *given = getenv("FAULTS_ROOT");
    if (!given || !realpath(given, root)) fault("FAULTS_ROOT");
    root_length = strlen(root);
    REAL(int, open64, const char *, int, ...);
    if ((given = getenv("FAULTS_JOURNAL"))) {
        journal = real_open64(given, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (journal < 0) fault(given);
    }
    if ((given = getenv("FAULTS_CONTROL"))) {
        int fd = real_open64(given, O_RDWR | O_CLOEXEC);
        if (fd < 0) fault(given);
        control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (control == MAP_FAILED) fault(given);
    }
}

static int below_root(const char *path) {
    return root_length && strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || !path[root_length]);
}

static int is_shared_memory(const char *path) { /* SQLite's index of the log, made anew after a crash */
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, "-shm") == 0;
}

static const char *watched(int fd) { return fd >= 0 && fd < DESCRIPTORS ? paths[fd] : NULL; }

static void note(int op, const char *path, size_t path_length, uint64_t inode, int64_t offset, const void *data,
                 uint64_t length) {
    if (journal < 0) return;
    int before = errno;
    struct timespec now;
    REAL(int, clock_gettime, clockid_t, struct timespec *);
    real_clock_gettime(CLOCK_MONOTONIC, &now);
    struct record record = {0x46415553, (uint8_t)op, 0, (uint16_t)path_length,
                            (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, inode, offset, length};
    struct iovec parts[3] = {{&record, sizeof record}, {(void *)path, path_length}, {(void *)data, data ? length : 0}};
    REAL(ssize_t, writev, int, const struct iovec *, int);
    ssize_t wanted = (ssize_t)(sizeof record + path_length + parts[2].iov_len);
    if (real_writev(journal, parts, 3) != wanted) fault("the journal cannot be written");
    errno = before;
}

static void note_path(int op, const char *path, uint64_t inode, int64_t offset, const void *data, uint64_t length) {
    note(op, path, strlen(path), inode, offset, data, length);
}

static uint64_t inode_of(int fd) {
    struct stat64 found;
    int before = errno;
    uint64_t inode = fstat64(fd, &found) == 0 ? found.st_ino : 0;
    errno = before;
    return inode;
}

/* The absolute path of what a call names, resolved except for its last part, which may not exist. */
static int resolve(int folder, const char *path, char *resolved) {
    char whole[PATH_MAX * 2], directory[PATH_MAX];
    int before = errno;
    if (path[0] == '/') {
        snprintf(whole, sizeof whole, "%s", path);
    } else {
        char link[64];
        if (folder == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, directory, sizeof directory - 1);
        if (length < 0) { errno = before; return 0; }
        directory[length] = 0;
        snprintf(whole, sizeof whole, "%s/%s", directory, path);
    }
    char *last = strrchr(whole, '/');
    if (last == whole) { errno = before; return 0; }
    *last = 0;
    if (!realpath(whole, directory)) { errno = before; return 0; }
    int length = snprintf(resolved, PATH_MAX, "%s/%s", directory, last + 1);
    errno = before;
    return length < PATH_MAX && below_root(resolved);
}

/* ------------------------------------------------------------------------------------------------ opening, closing */

static int refuse(int number) {
    __sync_fetch_and_add(&control->refused, 1);
    errno = number;
    return -1;
}

static int is_read_only(int folder, const char *path, int flags) {
    static const char *read_only;
    char resolved[PATH_MAX];
    if (!read_only && !(read_only = getenv("FAULTS_READ_ONLY"))) read_only = "";
    if (!*read_only || (flags & O_ACCMODE) == O_RDONLY || !resolve(folder, path, resolved)) return 0;
    return strncmp(resolved, read_only, strlen(read_only)) == 0;
}

static int is_full_for_new(int folder, const char *path, int flags) {
    char resolved[PATH_MAX];
    struct stat64 found;
    if (!control->disk_full || !(flags & O_CREAT) || !resolve(folder, path, resolved)) return 0;
    int before = errno, exists = fstatat64(folder, path, &found, 0) == 0;
    errno = before;
    return !exists;
}

static int opened(int fd, int flags) {
    if (fd < 0 || fd >= DESCRIPTORS || !root_length) return fd;
    char link[64], path[PATH_MAX];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length < 0) return fd;
    path[length] = 0;
    if (!below_root(path)) return fd;
    struct stat64 found;
    fstat64(fd, &found);
    free(paths[fd]);
    paths[fd] = strdup(path);
    if (!S_ISDIR(found.st_mode) && !is_shared_memory(path)) {
        note_path(OPENED, path, found.st_ino, 0, NULL, (uint64_t)found.st_size);
        if (flags & O_TRUNC) note_path(TRUNCATED, path, found.st_ino, 0, NULL, 0);
    }
    return fd;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        REAL(int, name, const char *, int, ...); \
        if (is_full_for_new(AT_FDCWD, path, flags)) return refuse(ENOSPC); \
        if (is_read_only(AT_FDCWD, path, flags)) return refuse(EACCES); \
        return opened(real_##name(path, flags, mode), flags); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        REAL(int, name, int, const char *, int, ...); \
        if (is_full_for_new(folder, path, flags)) return refuse(ENOSPC); \
        if (is_read_only(folder, path, flags)) return refuse(EACCES); \
        return opened(real_##name(folder, path, flags, mode), flags); \
    }
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
    REAL(int, close, int);
    if (watched(fd)) {
        free(paths[fd]);
        paths[fd] = NULL;
    }
    return real_close(fd);
}

/* -------------------------------------------------------------------------------------------------------- contents */

static int is_full_for(int fd, int64_t end) {
    if (!control->disk_full || !watched(fd)) return 0;
    struct stat64 found;
    return fstat64(fd, &found) == 0 && S_ISREG(found.st_mode) && end > found.st_size;
}

static ssize_t wrote(int fd, const void *data, ssize_t length, int64_t offset) {
    const char *path = watched(fd);
    if (length > 0 && path && !is_shared_memory(path))
        note_path(WROTE, path, inode_of(fd), offset, data, (uint64_t)length);
    return length;
}

ssize_t write(int fd, const void *data, size_t length) {
    REAL(ssize_t, write, int, const void *, size_t);
    if (!watched(fd)) return real_write(fd, data, length);
    int64_t position = lseek64(fd, 0, SEEK_CUR);
    if (is_full_for(fd, position + (int64_t)length)) return refuse(ENOSPC);
    ssize_t done = real_write(fd, data, length);
    return done > 0 ? wrote(fd, data, done, lseek64(fd, 0, SEEK_CUR) - done) : done;
}

#define PWRITE(name, offset_type) \
    ssize_t name(int fd, const void *data, size_t length, offset_type offset) { \
        REAL(ssize_t, name, int, const void *, size_t, offset_type); \
        if (is_full_for(fd, (int64_t)offset + (int64_t)length)) return refuse(ENOSPC); \
        return wrote(fd, data, real_##name(fd, data, length, offset), offset); \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define UNKNOWN_WAY(type, name, fd, parameters, ...) \
    type name parameters { \
        REAL(type, name, __VA_ARGS__); \
        if (watched(fd)) { errno = ENOSYS; fault(#name " is not noted"); }

UNKNOWN_WAY(ssize_t, writev, fd, (int fd, const struct iovec *parts, int count), int, const struct iovec *, int)
    return real_writev(fd, parts, count); }
UNKNOWN_WAY(ssize_t, pwritev, fd, (int fd, const struct iovec *parts, int count, off_t offset), int, const struct iovec *, int, off_t)
    return real_pwritev(fd, parts, count, offset); }
UNKNOWN_WAY(ssize_t, pwritev64, fd, (int fd, const struct iovec *parts, int count, off64_t offset), int, const struct iovec *, int, off64_t)
    return real_pwritev64(fd, parts, count, offset); }
UNKNOWN_WAY(int, fallocate64, fd, (int fd, int mode, off64_t offset, off64_t length), int, int, off64_t, off64_t)
    return real_fallocate64(fd, mode, offset, length); }
UNKNOWN_WAY(int, posix_fallocate64, fd, (int fd, off64_t offset, off64_t length), int, off64_t, off64_t)
    return real_posix_fallocate64(fd, offset, length); }
UNKNOWN_WAY(ssize_t, sendfile64, to, (int to, int from, off64_t *offset, size_t count), int, int, off64_t *, size_t)
    return real_sendfile64(to, from, offset, count); }
UNKNOWN_WAY(ssize_t, copy_file_range, to, (int from, off64_t *a, int to, off64_t *b, size_t count, unsigned flags), int, off64_t *, int, off64_t *, size_t, unsigned)
    return real_copy_file_range(from, a, to, b, count, flags); }

#define FTRUNCATE(name, size_type) \
    int name(int fd, size_type size) { \
        REAL(int, name, int, size_type); \
        if (is_full_for(fd, (int64_t)size)) return refuse(ENOSPC); \
        int done = real_##name(fd, size); \
        const char *path = watched(fd); \
        if (done == 0 && path && !is_shared_memory(path)) note_path(TRUNCATED, path, inode_of(fd), size, NULL, 0); \
        return done; \
    }
FTRUNCATE(ftruncate, off_t)
FTRUNCATE(ftruncate64, off64_t)

#define MMAP(name, offset_type) \
    void *name(void *at, size_t length, int protection, int flags, int fd, offset_type offset) { \
        REAL(void *, name, void *, size_t, int, int, int, offset_type); \
        const char *path = watched(fd); \
        if (path && (protection & PROT_WRITE) && (flags & MAP_SHARED) && !is_shared_memory(path)) \
            note_path(MAPPED, path, inode_of(fd), offset, NULL, 0); \
        return real_##name(at, length, protection, flags, fd, offset); \
    }
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)

#define SYNC(name) \
    int name(int fd) { \
        REAL(int, name, int); \
        const char *path = watched(fd); \
        if (!path) return real_##name(fd); \
        if (control->sync_fails) return refuse(EIO); \
        static uint64_t count; \
        int64_t number = (int64_t)(__sync_fetch_and_add(&count, 1) << 20) + getpid(); \
        note_path(SYNC_BEGUN, path, inode_of(fd), number, NULL, 0); \
        if (control->sync_takes_us) usleep((useconds_t)control->sync_takes_us); \
        int done = real_##name(fd); \
        if (done == 0) note_path(SYNCED, path, inode_of(fd), number, NULL, 0); \
        return done; \
    }
SYNC(fsync)
SYNC(fdatasync)

/* ----------------------------------------------------------------------------------------------------------- names */

static void note_two(int op, const char *from, const char *to) {
    char both[2 * PATH_MAX];
    size_t first = strlen(from), second = strlen(to);
    memcpy(both, from, first + 1);
    memcpy(both + first + 1, to, second);
    note(op, both, first + 1 + second, 0, 0, NULL, 0);
}

#define NAME(name, op, parameters, folder, path, types, ...) \
    int name parameters { \
        REAL(int, name, types); \
        char resolved[PATH_MAX]; \
        int is_watched = resolve(folder, path, resolved); \
        if (is_watched && control->disk_full && op == MADE_FOLDER) return refuse(ENOSPC); \
        int done = real_##name(__VA_ARGS__); \
        if (done == 0 && is_watched && !is_shared_memory(resolved)) note_path(op, resolved, 0, 0, NULL, 0); \
        return done; \
    }
#define COMMA ,
NAME(unlink, UNLINKED, (const char *path), AT_FDCWD, path, const char *, path)
NAME(rmdir, REMOVED_FOLDER, (const char *path), AT_FDCWD, path, const char *, path)
NAME(mkdir, MADE_FOLDER, (const char *path, mode_t mode), AT_FDCWD, path, const char * COMMA mode_t, path, mode)
NAME(mkdirat, MADE_FOLDER, (int folder, const char *path, mode_t mode), folder, path, int COMMA const char * COMMA mode_t, folder, path, mode)
NAME(unlinkat, (flags & AT_REMOVEDIR ? REMOVED_FOLDER : UNLINKED), (int folder, const char *path, int flags), folder, path, int COMMA const char * COMMA int, folder, path, flags)

#define TWO_NAMES(name, op, parameters, from_folder, to_folder, types, ...) \
    int name parameters { \
        REAL(int, name, types); \
        char from_resolved[PATH_MAX], to_resolved[PATH_MAX]; \
        int is_watched = resolve(from_folder, from, from_resolved) | resolve(to_folder, to, to_resolved); \
        int done = real_##name(__VA_ARGS__); \
        if (done == 0 && is_watched) note_two(op, from_resolved, to_resolved); \
        return done; \
    }
TWO_NAMES(rename, RENAMED, (const char *from, const char *to), AT_FDCWD, AT_FDCWD, const char * COMMA const char *, from, to)
TWO_NAMES(renameat, RENAMED, (int a, const char *from, int b, const char *to), a, b, int COMMA const char * COMMA int COMMA const char *, a, from, b, to)
TWO_NAMES(link, LINKED, (const char *from, const char *to), AT_FDCWD, AT_FDCWD, const char * COMMA const char *, from, to)
TWO_NAMES(linkat, LINKED, (int a, const char *from, int b, const char *to, int flags), a, b, int COMMA const char * COMMA int COMMA const char * COMMA int, a, from, b, to, flags)

/* ----------------------------------------------------------------------------------------------------------- clock */

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(int, clock_gettime, clockid_t, struct timespec *);
    int done = real_clock_gettime(clock, now);
    if (done == 0 && clock == CLOCK_BOOTTIME) now->tv_sec += 24 * 60 * 60; /* soon after a boot, clocks are often set */
    if (done == 0 && clock == CLOCK_REALTIME && control->clock_offset_ns) {
        int64_t shifted = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + control->clock_offset_ns;
        now->tv_sec = shifted / 1000000000;
        now->tv_nsec = shifted % 1000000000;
    }
    return done;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (at) *at = precise.tv_sec;
    return precise.tv_sec;
}
