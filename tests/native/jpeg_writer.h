// JPEGs of many forms, for tests and as seeds of the fuzzer.
#pragma once

#include <cstdio>
#include <cstdlib>
// The header of libjpeg needs those above.
#include <jpeglib.h>

#include <random>
#include <string>
#include <vector>

namespace tio::test {

struct JpegForm {
  unsigned width = 1;
  unsigned height = 1;
  J_COLOR_SPACE stored = JCS_YCbCr;
  int across = 2;  // sampling factors of the luma of color
  int down = 2;
  int quality = 90;
  unsigned noise = 16;  // levels of noise
  bool is_progressive = false;
  unsigned restart = 0;  // rows of blocks between restart markers; 0 for none
};

// Returns a JPEG of smooth colors with noise.
inline std::string write_jpeg(const JpegForm& form, std::mt19937_64& random) {
  jpeg_compress_struct image{};
  jpeg_error_mgr errors{};
  image.err = jpeg_std_error(&errors);
  jpeg_create_compress(&image);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&image, &data, &size);
  image.image_width = form.width;
  image.image_height = form.height;
  const bool is_gray = form.stored == JCS_GRAYSCALE;
  const bool is_ink = form.stored == JCS_CMYK || form.stored == JCS_YCCK;
  image.input_components = is_gray ? 1 : is_ink ? 4 : 3;
  image.in_color_space = is_gray ? JCS_GRAYSCALE : is_ink ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&image);
  jpeg_set_colorspace(&image, form.stored);
  jpeg_set_quality(&image, form.quality, TRUE);
  if (form.stored == JCS_YCbCr) {
    image.comp_info[0].h_samp_factor = form.across;
    image.comp_info[0].v_samp_factor = form.down;
  }
  if (form.is_progressive) jpeg_simple_progression(&image);
  image.restart_in_rows = static_cast<int>(form.restart);
  jpeg_start_compress(&image, TRUE);
  std::vector<unsigned char> row(form.width * static_cast<unsigned>(image.input_components));
  for (unsigned y = 0; y < form.height; ++y) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = static_cast<unsigned char>(y * 3 + i * 2 + random() % form.noise);
    }
    JSAMPROW rows[1] = {row.data()};
    jpeg_write_scanlines(&image, rows, 1);
  }
  jpeg_finish_compress(&image);
  std::string file(reinterpret_cast<char*>(data), size);
  jpeg_destroy_compress(&image);
  std::free(data);
  return file;
}

}  // namespace tio::test
