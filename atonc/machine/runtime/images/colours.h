#define fe_pixel fe_rgb
