/* Upper limit of the reading speed on one thread: read(), CRC-32C and one copy of each record.

   Prints bytes per second for files of TFRecord frames, which are read repeatedly for a second. */

#include <fcntl.h>
#include <nmmintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 20, HEADER = 12, FOOTER = 4, BLOCK = 1024 };

static const double SECONDS = 1.0;
/* For each byte of a CRC: the CRC after BLOCK more zeros. */
static uint32_t zeros[4][256];

static uint32_t load32(const unsigned char *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static uint64_t load64(const unsigned char *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static void make_zeros(void) {
  for (int byte = 0; byte < 4; ++byte) {
    for (uint32_t value = 0; value < 256; ++value) {
      uint64_t crc = value << (8 * byte);
      for (int i = 0; i < BLOCK / 8; ++i) crc = _mm_crc32_u64(crc, 0);
      zeros[byte][value] = (uint32_t)crc;
    }
  }
}

static uint64_t after_zeros(uint64_t crc) {
  return zeros[0][crc & 255] ^ zeros[1][crc >> 8 & 255] ^ zeros[2][crc >> 16 & 255] ^
         zeros[3][crc >> 24 & 255];
}

/* Processes three blocks in parallel: the instruction has a latency of three cycles. */
static uint32_t crc32c(const unsigned char *data, size_t size) {
  uint64_t crc = 0xffffffff;
  for (; size >= 3 * BLOCK; data += 3 * BLOCK, size -= 3 * BLOCK) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (int i = 0; i < BLOCK; i += 8) {
      crc = _mm_crc32_u64(crc, load64(data + i));
      second = _mm_crc32_u64(second, load64(data + BLOCK + i));
      third = _mm_crc32_u64(third, load64(data + 2 * BLOCK + i));
    }
    crc = after_zeros(after_zeros(crc) ^ second) ^ third;
  }
  for (; size >= 8; data += 8, size -= 8) crc = _mm_crc32_u64(crc, load64(data));
  for (; size > 0; ++data, --size) crc = _mm_crc32_u8((uint32_t)crc, *data);
  return (uint32_t)crc ^ 0xffffffff;
}

static uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8; }

static void fail(const char *path, const char *why) {
  fprintf(stderr, "%s: %s\n", path, why);
  exit(1);
}

static size_t read_file(const char *path, unsigned char *buffer, unsigned char *copy) {
  int file = open(path, O_RDONLY);
  if (file < 0) fail(path, "cannot be opened");
  size_t total = 0;
  size_t held = 0;
  for (;;) {
    ssize_t got = read(file, buffer + held, BUFFER - held);
    if (got < 0) fail(path, "cannot be read");
    if (got == 0) break;
    total += (size_t)got;
    held += (size_t)got;
    size_t at = 0;
    while (held - at >= HEADER) {
      uint64_t length = load64(buffer + at);
      if (length > BUFFER - HEADER - FOOTER) fail(path, "has too long a record");
      if (held - at < HEADER + length + FOOTER) break;
      const unsigned char *record = buffer + at + HEADER;
      if (masked(crc32c(buffer + at, 8)) != load32(buffer + at + 8) ||
          masked(crc32c(record, length)) != load32(record + length))
        fail(path, "is corrupt");
      memcpy(copy + at, record, length);
      at += HEADER + length + FOOTER;
    }
    memmove(buffer, buffer + at, held - at);
    held -= at;
  }
  if (held != 0) fail(path, "ends in a record");
  close(file);
  return total;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int count, char **paths) {
  unsigned char *buffer = malloc(BUFFER);
  unsigned char *copy = malloc(BUFFER);
  if (buffer == NULL || copy == NULL || count < 2) return 1;
  make_zeros();
  double bytes = 0;
  double start = now();
  while (now() - start < SECONDS) {
    for (int i = 1; i < count; ++i) bytes += (double)read_file(paths[i], buffer, copy);
  }
  printf("%.0f\n", bytes / (now() - start));
  free(buffer);
  free(copy);
  return 0;
}
