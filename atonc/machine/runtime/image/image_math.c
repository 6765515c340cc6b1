/* SPDX-License-Identifier: Apache-2.0
 * The functions of <math.h> that CPU layers use and that cannot be moved: the C library's own keep tables or errno at
 * fixed addresses. Their results are exact by definition, so it does not matter who computes them.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define FRACTION 0x000FFFFFFFFFFFFFULL
#define ONE (FRACTION + 1)
#define EXPONENT 0x7FFULL

double __ieee754_sqrt(double x); /* the library's, without errno */
double sqrt(double x) { return __ieee754_sqrt(x); }

/* To the nearest integer, halves to the even one: what adding 2^52 does to a smaller number. */
double rint(double x) {
    const double large = 4503599627370496.0;
    const double size = fabs(x);
    return size < large ? copysign((size + large) - large, x) : x;
}

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The significand as an integer, with its leading one at bit 52, and the exponent that belongs to it. */
static uint64_t digits_of(uint64_t bits, int *exponent) {
    uint64_t value = bits & FRACTION;
    *exponent = (int)(bits >> 52 & EXPONENT);
    if (*exponent != 0) {
        return value | ONE;
    }
    for (*exponent = 1; value < ONE; --*exponent) {
        value <<= 1;
    }
    return value;
}

double fmod(double x, double y) {
    const uint64_t sign = bits_of(x) & ~(~0ULL >> 1);
    const uint64_t size_x = bits_of(x) & ~0ULL >> 1, size_y = bits_of(y) & ~0ULL >> 1;
    if (size_y == 0 || size_x >= EXPONENT << 52 || size_y > EXPONENT << 52) {
        return (x * y) / (x * y);
    }
    if (size_x < size_y) {
        return x;
    }
    if (size_x == size_y) {
        return x * 0.0;
    }
    int exponent, last;
    uint64_t rest = digits_of(size_x, &exponent);
    const uint64_t divisor = digits_of(size_y, &last);
    for (;; exponent--, rest <<= 1) {
        rest = rest >= divisor ? rest - divisor : rest;
        if (exponent == last || rest == 0) {
            break;
        }
    }
    if (rest == 0) {
        return x * 0.0;
    }
    for (; rest < ONE; rest <<= 1) {
        exponent--;
    }
    const uint64_t found = exponent > 0 ? (rest & FRACTION) | (uint64_t)exponent << 52 : rest >> (1 - exponent);
    double result;
    memcpy(&result, &(uint64_t){sign | found}, sizeof result);
    return result;
}
