/* Sum of products: four sums beside each other, which are added at the end. The weights stand one row after the other. */
static inline float fe_dot(const float **weights, const float *values, uint32_t fours)
{
  fe_four total = fe_all(0);
  for (; fours; fours--, *weights += 4, values += 4) {
    total = fe_add(total, fe_mul(fe_load(*weights), fe_load(values)));
  }
  return fe_sum(total);
}
