"""Every independent error is a finding; an error is counted with another only where it follows from it.

The logs are nvcc's, g++'s and ld's own words about small sources.
"""

import pytest
from tileproof.conformance.beside.logs.builds import findings, report

# Two assertions in an instantiation, a syntax error and an unknown name at the line that asked for it.
ASSERTIONS = """c.cu(13): error: expected an expression
  void launch(float *p) { kernel<<<1, 1>>>(p); kernel<<<1,1,>>>(p); undeclared(p); }
                                                            ^

c.cu(13): error: identifier "undeclared" is undefined
  void launch(float *p) { kernel<<<1, 1>>>(p); kernel<<<1,1,>>>(p); undeclared(p); }
                                                                    ^

c.cu(2): error: static assertion failed with "T must have 16 bits"
      static_assert(sizeof(T) == 2, "T must have 16 bits");
      ^
          detected during:
            instantiation of class "Loader<T> [with T=float]" at line 10
            instantiation of "void kernel(T *) [with T=float]" at line 13

c.cu(6): error: static assertion failed with "T must be aligned to 16 bytes"
      static_assert(alignof(T) == 16, "T must be aligned to 16 bytes");
      ^
          detected during:
            instantiation of class "Saver<T> [with T=float]" at line 10
            instantiation of "void kernel(T *) [with T=float]" at line 13

4 errors detected in the compilation of "c.cu".
"""
# What follows from an unknown type: words of a compiler that reads on, and the variable, also further down.
NAMES = """a.cu(19): error: identifier "Missing" is undefined
      Missing<int> m;
      ^

a.cu(19): error: type name is not allowed
      Missing<int> m;
              ^

a.cu(19): error: identifier "m" is undefined
      Missing<int> m;
                   ^

a.cu(21): error: name followed by "::" must be a class or namespace name
      Missing2::call();
      ^

a.cu(22): error: type name is not allowed
      Missing<float> m2;
              ^

a.cu(22): error: identifier "m2" is undefined
      Missing<float> m2;
                     ^

a.cu(23): error: identifier "make_thing" is undefined
      auto z = make_thing(1); z.x = 3; auto w = use(z);
               ^

a.cu(23): error: identifier "use" is undefined
      auto z = make_thing(1); z.x = 3; auto w = use(z);
                                                ^

"""
# The instantiation is asked for at a line with an unknown name, and has a mistake of its own.
TEMPLATE = """a.cu(13): error: identifier "undefined_one" is undefined
      stage<float, 24, 12>(p); undefined_one(p);
                               ^

a.cu(9): error: name followed by "::" must be a class or namespace name
      typename T::value_type x = p[0];
               ^
          detected during instantiation of "void stage<T,M,N>(T *) [with T=float, M=24, N=12]" at line 13

a.cu(9): error: a class or namespace qualified name is required
      typename T::value_type x = p[0];
               ^
          detected during instantiation of "void stage<T,M,N>(T *) [with T=float, M=24, N=12]" at line 13

a.cu(9): error: expected a ";"
      typename T::value_type x = p[0];
                             ^
          detected during instantiation of "void stage<T,M,N>(T *) [with T=float, M=24, N=12]" at line 13

a.cu(10): error: identifier "x" is undefined
      p[tile.size] = x;
                     ^
          detected during instantiation of "void stage<T,M,N>(T *) [with T=float, M=24, N=12]" at line 13

5 errors detected in the compilation of "a.cu".
"""
# `x` has no type behind line 15; in the call at line 20 its other argument fits no function either.
CALLS = """d.cu(15): error: no instance of function template "take" matches the argument list
            argument types are: (int, float)
    auto x = take(1, 2.0f) + r.top() + s.size;
             ^
d.cu(11): note #3327-D: candidate function template "take" failed deduction
  template <class T> __attribute__((device)) T take(T a, T b) { return a + b; }
                                               ^

d.cu(15): error: class "P" has no member "size"
    auto x = take(1, 2.0f) + r.top() + s.size;
                                         ^

d.cu(19): error: a value of type "int" cannot be assigned to an entity of type "float *"
    s.p = 3;
        ^

d.cu(20): error: no instance of overloaded function "f" matches the argument list
            argument types are: (<error-type>, P)
    f(x, s);
    ^
d.cu(10): note #3326-D: function "f(char, int)" does not match because argument #2 does not match parameter
  __attribute__((device)) void f(char p, int q) {}
                               ^
d.cu(9): note #3326-D: function "f(int *, int)" does not match because argument #2 does not match parameter
  __attribute__((device)) void f(int *p, int n) {}
                               ^

4 errors detected in the compilation of "d.cu".
"""
INCLUDE = """b.cu:1:10: fatal error: not_there/at_all.h: No such file or directory
    1 | #include <not_there/at_all.h>
      |          ^~~~~~~~~~~~~~~~~~~~
compilation terminated.
"""
LINKER = """/usr/bin/ld: k.o: in function `main':
k.cu:(.text+0x1c): undefined reference to `launch(int)'
collect2: error: ld returned 1 exit status
"""

# The errors that have findings of their own, by their line (the linker names none).
ROOTS = {
    "assertions": (ASSERTIONS, {(13, "undeclared"), (13, "expected"), (2, "16 bits"), (6, "16 bytes")}),
    "names": (NAMES, {(19, '"Missing"'), (21, '"::"'), (23, "make_thing"), (23, '"use"')}),
    "template and include": (TEMPLATE + INCLUDE, {(13, "undefined_one"), (9, '"::"'), (1, "at_all.h")}),
    "calls": (CALLS, {(15, '"take"'), (15, '"size"'), (19, "cannot be assigned"), (20, '"f"')}),
    "linker and compile": (LINKER + NAMES, {(0, "launch(int)"), (19, '"Missing"'), (21, '"::"'),
                                            (23, "make_thing"), (23, '"use"')}),
}  # fmt: skip
FOLLOW = {"calls": 0, "assertions": 0, "names": 4, "template and include": 3, "linker and compile": 4}


def differences(name: str) -> list[str]:
    """What of the expected roots and consequences a log's explanation does not have."""
    log, roots = ROOTS[name]
    rows = report.explain(report.parse(log))["findings"]
    told = [(row["at"]["line"] if row["at"] else 0, row["message"]) for row in rows]
    wrong = [f"no finding: {root}" for root in roots if not any(_is(root, item) for item in told)]
    wrong += [f"no root: {item}" for item in told if not any(_is(root, item) for root in roots)]
    follow = sum(row["follow"] for row in rows)
    return wrong + ([f"{follow} follow"] if follow != FOLLOW[name] else [])


def _is(root: tuple[int, str], told: tuple[int, str]) -> bool:
    return root[0] == told[0] and root[1] in told[1]


@pytest.mark.parametrize("name", ROOTS)
def test_each_root_is_a_finding_and_nothing_else_is(name: str) -> None:
    assert differences(name) == []


def test_consequences_are_printed_below_their_root() -> None:
    rows = report.explain(report.parse(NAMES))["findings"]
    assert [item["message"] for item in rows[0]["followers"]] == [
        "type name is not allowed",
        'identifier "m" is undefined',
        "type name is not allowed",
        'identifier "m2" is undefined',
    ]
    assert [row["follow"] for row in rows] == [4, 0, 0, 0]


def test_a_call_with_a_broken_argument_follows_from_the_error_that_broke_it() -> None:
    """Not from the last error; another argument that does not fit is a mistake of its own ("calls")."""
    rows = report.explain(report.parse(CALLS.replace("argument #2", "argument #1")))["findings"]
    follow = {row["at"]["line"]: row["follow"] for row in rows if row["at"] is not None and row["follow"]}
    assert follow == {15: 1}


def test_a_variable_of_another_function_does_not_follow() -> None:
    """`x` is undefined far below the failed declaration of another `x`."""
    far = TEMPLATE.replace("a.cu(10)", "a.cu(90)").replace("5 errors", "6 errors")
    rows = report.explain(report.parse(far))["findings"]
    assert {row["at"]["line"] for row in rows} == {13, 9, 90}


@pytest.mark.parametrize("planted", ["same_call", "follows"])
def test_a_planted_wrong_grouping_is_seen(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors at one line that always count as consequences of the first hide roots."""
    monkeypatch.setattr(findings, planted, lambda *_: True)
    monkeypatch.setattr(findings, "may_belong", lambda *_: True)
    assert any("no finding" in item for name in ROOTS for item in differences(name))
