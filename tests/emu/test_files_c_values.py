"""The C reader: literals, constant expressions, initialisers, conditions, scopes, and what it refuses."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import InputError
from atonc.machine.emu.files.c_text import number
from atonc.machine.emu.files.c_values import FunctionReader, parse_unit, unit_array_bytes
from atonc.machine.emu.files.types import CValue, Symbol


def value_of(expression: str, before: str = "") -> CValue:
    unit = parse_unit(f"{before}\nstatic int f(void) {{ return {expression}; }}".encode(), "test.c")
    return FunctionReader(unit).returned("f")


def initialised(initialiser: str, before: str = "") -> CValue:
    text = f"static T *f(void) {{ {before} static const T x = {initialiser}; return x; }}"
    return FunctionReader(parse_unit(text.encode(), "test.c")).returned("f")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("42", 42),
        ("0x342e0000UL", 0x342E0000),
        ("0xFFFFFFFFFFFFFFFFULL", 2**64 - 1),
        ("010", 8),
        ("0b101", 5),
        ("1.5", 1.5),
        ("1.", 1.0),
        (".25", 0.25),
        ("1e3", 1000.0),
        ("5.77404045e-08", 5.77404045e-08),
        ("0.5f", 0.5),
        ("0x1p4", 16.0),
        ("-7", -7),
        ("-0.75", -0.75),
    ],
)
def test_number_literals(text: str, value: float) -> None:
    assert number(text) == value
    assert type(number(text)) is type(value)


@pytest.mark.parametrize("text", ["", "x", "0x", "08", "1.2.3", "0xg", "12ab", "--3", "1e", "9" * 50])
def test_not_number_literals(text: str) -> None:
    assert number(text) is None


@given(st.integers(0, 2**64 - 1))
def test_any_integer_reads_back(value: int) -> None:
    assert number(str(value)) == number(f"{value:#x}u") == value


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_any_float_reads_back(value: float) -> None:
    assert number(repr(value)) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0x342e0000UL + 230400", 0x342E0000 + 230400),
        ("((uintptr_t)(ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR(0x70380000UL + 16)))", 0x70380010),
        ("((unsigned char *)(4096))", 4096),
        ("(2 + 3) * 4 - 6 / 4 % 3", 19),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("1 << 4 | 3 & ~1 ^ 8", 1 << 4 | (3 & ~1) ^ 8),
        ("0x80 >> 3", 16),
        ("(short)40000", 40000 - 65536),
        ("(uint8_t)(-1)", 255),
        ("(int)2.9", 2),
        ("(float)3", 3.0),
        ("sizeof(float)", 4),
        ("sizeof(char *)", 4),
        ("1 ? 5 : 6", 5),
        ("0 || 3 == 3 && !0", 1),
        ("1.5 + 2", 3.5),
        ('"a\\"b"', 'a"b'),
        ('"two " "parts"', "two parts"),
        ("NULL", None),
        ("true", 1),
        ("SOME_ENUM", Symbol("SOME_ENUM")),
        ("'A'", 65),
    ],
)
def test_constant_expressions(expression: str, value: CValue) -> None:
    assert value_of(expression) == value


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.sampled_from(["+", "-", "*", "|", "&", "^"]))
def test_arithmetic_is_that_of_python(left: int, right: int, operator: str) -> None:
    assert value_of(f"({left}) {operator} ({right})") == eval(f"({left}) {operator} ({right})")


def test_nested_designators_make_nested_structs() -> None:
    assert initialised("{ .a.b.c = 1, .a.b.d = 2, .a.e = X, .f = {1, 2}, }") == {
        "a": {"b": {"c": 1, "d": 2}, "e": Symbol("X")},
        "f": [1, 2],
    }


def test_unions_of_pointers_are_their_address() -> None:
    assert initialised("{ .addr_base = {(unsigned char *)(0x10UL)}, .A_vector = {0}, .vec_precision = {16} }") == {
        "addr_base": 16,
        "A_vector": 0,
        "vec_precision": [16],
    }


def test_arrays_of_structs_and_indexed_elements() -> None:
    assert initialised('{ { .name = NULL, }, { .name = "x" }, }') == [{"name": None}, {"name": "x"}]
    assert initialised("{ [2] = 7, [0] = 5 }") == [5, 0, 7]
    assert initialised("{ }") == []
    assert initialised("{ {STRENG, 6}, {ARITH, 0}, }") == [[Symbol("STRENG"), 6], [Symbol("ARITH"), 0]]


@pytest.mark.parametrize("count", [3, 3000])
@pytest.mark.parametrize(("text", "value"), [("-7", -7), ("0.5", 0.5), ("-1.5e-3f", -1.5e-3), ("2.0f", 2.0)])
def test_lists_of_numbers_of_any_length(text: str, value: float, count: int) -> None:
    """Long ones never become a tree; the code behind them is read as ever."""
    assert initialised(f"{{ {', '.join([text] * count)}, }}") == [value] * count
    assert initialised("{ 1, 2 }", f"static const T y[] = {{ {', '.join([text] * count)} }};") == [1, 2]


@pytest.mark.parametrize("count", [3, 3000])
@pytest.mark.parametrize("text", ["1f", "1.0ff", "1,,2", "--1", "1 2"])
def test_lists_that_are_no_c_are_refused(text: str, count: int) -> None:
    with pytest.raises(InputError):
        initialised(f"{{ {', '.join([text] * count)} }}")


def test_link_macros_stand_for_members() -> None:
    text = (
        "{ LL_Switch_Init_Dest() = ATONN_DSTPORT(STRSWITCH, 0, ARITH, 1, 0), "
        "LL_Switch_Init_Source(1) = ATONN_SRCPORT(STRSWITCH, 0, STRENG, 3, 0), LL_Switch_Init_Frames(1) = 9, }"
    )
    assert initialised(text) == {
        "dest": {"unit": Symbol("ARITH"), "instance": 1, "port": 0},
        "source1": {"unit": Symbol("STRENG"), "instance": 3, "port": 0},
        "frames1": 9,
    }


def test_pointers_into_arrays() -> None:
    before = "static const int a[] = { 1, 2, 3 }; static const int *p[] = { a };"
    assert initialised("{ a, &a[1], a + 2, p[0], *a, a[2], &s }", before) == [
        [1, 2, 3], [2, 3], [3], [1, 2, 3], 1, 3, Symbol("s"),
    ]  # fmt: skip


@given(st.floats(-(2.0**100), 2.0**100, width=32))
def test_the_bits_of_a_float(value: float) -> None:
    text = f"static int f(void) {{ const float v = {value!r}; return *((int32_t*)&v); }}"
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    assert FunctionReader(parse_unit(text.encode(), "t.c")).returned("f") == bits


def test_inner_names_hide_outer_ones() -> None:
    text = """
    static int v = 1;
    static int f(void) { int v = 2; { int v = 3; g(v); } g(v); }
    static int h(void) { g(v); }
    """
    reader = FunctionReader(parse_unit(text.encode(), "t.c"))
    assert [call.args for call in reader.calls("f")] == [(3,), (2,)]
    assert [call.args for call in reader.calls("h")] == [(1,)]


def test_calls_carry_name_arguments_and_line() -> None:
    text = (
        "static void f(const void *e)\n{\n  LL_ATON_LIB_UNUSED(e);\n  run(1, &x, e);\n  assert(sizeof(float) == 4);\n}"
    )
    calls = FunctionReader(parse_unit(text.encode(), "t.c")).calls("f")
    assert [(c.name, c.args, c.where) for c in calls] == [("run", (1, Symbol("x"), Symbol("e")), "t.c:4")]


def test_conditions_choose_their_branch() -> None:
    text = """
    #define ONE 1
    #if 0
    broken ( here {
    #elif ONE == 1 && !defined(NOPE) && UNKNOWN == 0
    static int a = 10;
    #else
    static int a = 20;
    #endif
    #ifdef LL_ATON_EB_DBG_INFO
    static int b = 1;
    #endif
    #ifndef ONE
    static int c = 1;
    #else
    static int c = 2;
    #endif
    static int f(void) { return a + b + c; }
    """
    assert FunctionReader(parse_unit(text.encode(), "t.c")).returned("f") == 13


def test_macros_have_values() -> None:
    assert value_of("BASE + 4", "#define BASE (OTHER << 1)\n#define OTHER 0x10") == 0x24


def test_comments_may_stand_anywhere_and_strings_are_not_comments() -> None:
    assert value_of('/* one */ g /* two */ + 1 // three\n == 2 ? "/*" : "//"', "static int g = 1;") == "/*"
    assert initialised('{ .a /* x */ = "no /* comment */", }') == {"a": "no /* comment */"}


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("1 / 0", "division by zero or impossible shift"),
        ("1.0 / 0", "1.0 / 0 has no known value"),
        ("5 % 0", "division by zero or impossible shift"),
        ("1 << 64", "division by zero or impossible shift"),
        ("1 << -1", "division by zero or impossible shift"),
        ("1 << 63 << 1", "a constant is wider than 64 bits"),
        ("0xFFFFFFFFFFFFFFFF + 1", "a constant is wider than 64 bits"),
        ("0xFFFFFFFFFFFFFFFFFFF", "not a number: 0xFFFFFFFFFFFFFFFFFFF"),
        ("UNKNOWN + 4", "UNKNOWN + 4 has no known value"),
        ("-UNKNOWN", "-UNKNOWN has no known value"),
        ("*UNKNOWN", "*UNKNOWN has no known value"),
        ("UNKNOWN ? 1 : 2", "the condition has no known value"),
        ("a[3]", "array index outside the array"),
        ("a[-1]", "array index outside the array"),
        ("&a[3]", "array index outside the array"),
        ("UNKNOWN[0]", "array index outside the array"),
        ("a[UNKNOWN]", "UNKNOWN is not a known integer"),
        ("a + 4", "a + 4 has no known value"),
        ("a - 1", "a - 1 has no known value"),
        ("!a", "!a has no known value"),
        ("~1.5", "~1.5 has no known value"),
        ("1.5 % 2", "operator % on floats"),
        ("1.5 << 2", "operator << on floats"),
        ("(uint8_t)1e30", "1e+30 does not fit uint8_t"),
        ("x->y", "cannot evaluate a field expression here"),
        ("(1, 2)", "cannot evaluate a comma expression here"),
        ("f(1) + 2", "f(1) + 2 has no known value"),
        ("1 = 2", "this is not C: '= 2'"),
    ],
)
def test_what_has_no_value_is_refused(expression: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        value_of(expression, "static const int a[] = { 1, 2, 3 };")
    assert (refused.value.what, refused.value.where) == (said, "test.c:2")


@pytest.mark.parametrize(
    ("initialiser", "said"),
    [
        ("{ .x = 1, 2 }", "designated and plain initialisers are mixed"),
        ("{ .x = 1, .x.y = 2 }", "field x is initialised twice in different ways"),
        ("{ [1].x = 1 }", "this array designator is not understood"),
        ("{ [1048576] = 1 }", "this array designator is not understood"),
        ("{ [-1] = 1 }", "this array designator is not understood"),
        ("{ [X] = 1 }", "X is not a known integer"),
        ("{ FOO(1) = 2 }", "this initialiser is not understood"),
    ],
)
def test_what_initialises_nothing_is_refused(initialiser: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        initialised(initialiser)
    assert (refused.value.what, refused.value.where) == (said, "test.c:1")


def defines(count: int) -> str:
    return "\n".join(f"#define A{i} A{i + 1}" for i in range(count)) + "\nstatic int f(void) { return A0; }"


def nested(depth: int) -> str:
    return "static int f(void) { return " + "(" * depth + "1" + ")" * depth + "; }"


@pytest.mark.parametrize(
    ("text", "said", "where"),
    [
        ("static int f(void) { return 1;", "missing '}'", ":1"),
        ("static int f(void) { int a[] = { 1, 2; return a; }", "missing '}'", ":1"),
        ("static int f(void) { for (;;) { } }", "a for statement is not expected in generated code", ":1"),
        ("static int f(void) {\nwhile (1) g(); }", "a while statement is not expected in generated code", ":2"),
        ("static int f(void) { if (UNKNOWN) { g(); } }", "the outcome of this branch is not known", ":1"),
        ("static int f(void) { a.b = 3; }", "this assignment is not understood", ":1"),
        ("static int f(void) { a += 3; }", "this assignment is not understood", ":1"),
        ("/* never closed\nstatic int f(void) { }", "a comment is never closed", ":1"),
        ("#if 1\nstatic int f(void) { return 1; }", "#if without #endif", ":1"),
        ("#endif\nstatic int f(void) { return 1; }", "#endif without #if", ":1"),
        ("#else\nstatic int f(void) { return 1; }", "#else without #if", ":1"),
        ("static int a = b; static int b = a; static int f(void) { return a; }", "a is defined by itself", ""),
        ("static int g(void) { return 1; }", "function f is used but not defined", ""),
        (nested(80), "nested deeper than 80 levels", ":1"),
        ("static int f(void) " + "{" * 34 + "}" * 34, "blocks nested deeper than 32", ":1"),
        (defines(16), "more than 16 names defined by each other", ""),
        ("#if 1\n" * 100, "more than 64 nested #if", ":65"),
    ],
)
def test_broken_text_is_an_input_error(text: str, said: str, where: str) -> None:
    with pytest.raises(InputError) as refused:
        FunctionReader(parse_unit(text.encode(), "t.c")).returned("f")
    assert (refused.value.what, refused.value.where) == (said, f"t.c{where}")


def test_as_deep_as_allowed() -> None:
    deep = "static int f(void) " + "{" * 33 + "return 1;" + "}" * 33
    found = [FunctionReader(parse_unit(one.encode(), "t.c")).returned("f") for one in (nested(79), deep, defines(15))]
    assert found == [1, 1, Symbol("A15")]
    assert initialised("{ [1048575] = 1 }") == [0] * 1048575 + [1]


@pytest.mark.parametrize(
    ("array", "found"),
    [
        ("int8_t a[] = { -128, 255 }", b"\x80\xff"),
        ("uint16_t a[] = { 0x102, -1 }", b"\x02\x01\xff\xff"),
        ("int64_t a[] = { -2 }", b"\xfe" + b"\xff" * 7),
        ("int8_t a[] = { -129 }", "a value does not fit int8_t"),
        ("uint8_t a[] = { 256 }", "a value does not fit uint8_t"),
        ("int8_t a[] = { 1.5 }", "the array holds something that is not an integer"),
        ("int8_t a = 3", "the array holds something that is not an integer"),
        ("float a[] = { 1, 2 }", "array elements of type float are not understood"),
    ],
)
def test_arrays_as_bytes(array: str, found: bytes | str) -> None:
    unit = parse_unit(f"static const {array};".encode(), "t.c")
    if isinstance(found, bytes):
        assert unit_array_bytes(unit, "a") == found and unit_array_bytes(unit, "b") is None
        return
    with pytest.raises(InputError) as refused:
        unit_array_bytes(unit, "a")
    assert (refused.value.what, refused.value.where) == (found, "t.c:1")


def test_an_error_names_file_and_line() -> None:
    text = b"static int f(void)\n{\n  int a[] = { 1, 2 ;\n  return a;\n}\n"
    with pytest.raises(InputError, match=r"t\.c:[345]"):
        FunctionReader(parse_unit(text, "t.c")).returned("f")


def test_a_broken_function_does_not_hurt_the_others() -> None:
    unit = parse_unit(b"static int f(void) { return 1; }\nstatic int g(void) { return ]; }\n", "t.c")
    assert FunctionReader(unit).returned("f") == 1
    with pytest.raises(InputError, match=r"t\.c:2"):
        FunctionReader(unit).returned("g")
