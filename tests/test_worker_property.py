"""
Random well-formed Lisp evaluates in a session to what it evaluates to in a plain ECL: neither what the session does to
the Lisp it hosts, nor reading, evaluating and printing form by form, changes a value.
"""

import os
import random
import subprocess

import pytest

from worker_driver import worker, zygote  # noqa: F401

COUNT = int(os.environ.get("PROPERTY_COUNT", "400"))
SEED = int(os.environ.get("PROPERTY_SEED", "20260120"))

# Evaluates the forms in a file one by one, and prints their values as a session does, between marks.
PLAIN = r"""
(defun print-value (value)
  (let ((*print-length* 100) (*print-level* 10) (*print-circle* t) (*print-pretty* t) (*print-readably* nil))
    (write-string "{value}")
    (write-string (prin1-to-string value))))
(with-open-file (in "{path}" :external-format :utf-8)
  (loop for form = (read in nil in)
        until (eq form in)
        do (mapc #'print-value
                 (multiple-value-list
                  (handler-bind ((warning #'muffle-warning))
                    (handler-case (eval form)
                      (error () :error)))))
           (write-string "{form}")))
(ext:quit 0)
"""
VALUE, FORM = "\x01", "\x02"


class Generator:
    """Grows expressions; each kind of value has ways to make it out of smaller ones."""

    def __init__(self, chance):
        self.chance = chance
        self.variables = []
        self.fresh = 0

    def name(self):
        self.fresh += 1
        return f"v{self.fresh}"

    def expression(self, kind, depth):
        usable = [name for name, of in self.variables if of == kind]
        if usable and self.chance.random() < 0.3:
            return self.chance.choice(usable)
        if depth <= 0:
            return getattr(self, f"{kind}_leaf")()
        ways = [getattr(self, name) for name in dir(self)
                if name.startswith((f"{kind}_by_", "any_by_"))]
        return self.chance.choice(ways)(kind, depth - 1)

    def pick(self, *texts):
        return self.chance.choice(texts)

    def within(self, bindings, kind, depth):
        """An expression in the scope of (name, kind) bindings."""
        self.variables += bindings
        body = self.expression(kind, depth)
        del self.variables[len(self.variables) - len(bindings):]
        return body

    # Leaves

    def integer_leaf(self):
        return str(self.chance.choice([0, 1, -1, 2, 7, 10, 255, -1000, 1 << 40, self.chance.randrange(-99, 100)]))

    def number_leaf(self):
        return self.pick(self.integer_leaf(), "1/3", "-22/7", "0.5", "2.5d0", "1.0e10", "#c(1 2)", "-0.0", "1d-5")

    def string_leaf(self):
        return self.pick('""', '"abc"', '"Hello, World"', '"é ü 中"', '"a \\"quoted\\" \\\\ one"', '"two\nlines"')

    def symbol_leaf(self):
        return self.pick("'a", "'b", ":key", "nil", "t", "'|mixed Case|", "'cl:car", "'#:gone")

    def list_leaf(self):
        return self.pick("'()", "'(1 2 3)", "'(a (b . c) \"d\")", "(list 3 1 2)", "'(#\\a #\\Space 1.5)")

    def list_by_map(self, _, depth):
        name = self.name()
        body = self.within([(name, "integer")], "integer", depth)
        return f"(mapcar (lambda ({name}) (declare (ignorable {name})) {body}) (list 1 2 3))"

    # Numbers

    def integer_by_arithmetic(self, _, depth):
        operator = self.pick("+", "-", "*", "max", "min", "logand", "logior", "gcd", "lcm")
        return f"({operator} {self.expression('integer', depth)} {self.expression('integer', depth)})"

    def integer_by_division(self, _, depth):
        operator = self.pick("floor", "mod", "rem", "truncate", "round", "ceiling")
        return f"(values ({operator} {self.expression('integer', depth)} {self.expression('integer', depth)}))"

    def integer_by_length(self, _, depth):
        return f"(length {self.expression(self.pick('list', 'string'), depth)})"

    def integer_by_loop(self, _, depth):
        name = self.name()
        body = self.within([(name, "integer")], "integer", depth)
        return f"(loop for {name} from 0 below 5 {self.pick('sum', 'maximize', 'count')} {body})"

    def number_by_arithmetic(self, _, depth):
        operator = self.pick("+", "-", "*", "/")
        return f"({operator} {self.expression('number', depth)} {self.expression('number', depth)})"

    def number_by_function(self, _, depth):
        return f"({self.pick('abs', '1+', '-', 'numberp')} {self.expression('number', depth)})"

    def number_by_integer(self, _, depth):
        return self.expression("integer", depth)

    # Strings and symbols

    def string_by_format(self, _, depth):
        control, kind = self.pick(("~A and ~S", "symbol"), ("~D/~X", "integer"), ("~{~A~^, ~}|~A", "list"),
                                  ("~10A|~5,'0D", "integer"), ("~:[no~;yes~]~@[ ~A~]", "symbol"), ("~R ~@R", "integer"),
                                  ("~(~A~) ~:@(~A~)", "string"), ("~S~%~W", "list"), ("~,3F ~E", "number"))
        return f"(format nil \"{control}\" {self.expression(kind, depth)} {self.expression(kind, depth)})"

    def string_by_function(self, _, depth):
        function = self.pick("string-upcase", "string-downcase", "reverse", "copy-seq")
        return f"({function} {self.expression('string', depth)})"

    def string_by_concatenation(self, _, depth):
        return f"(concatenate 'string {self.expression('string', depth)} {self.expression('string', depth)})"

    def string_by_printing(self, _, depth):
        kind = self.pick("list", "number", "symbol")
        return f"({self.pick('prin1-to-string', 'princ-to-string')} {self.expression(kind, depth)})"

    def symbol_by_comparison(self, _, depth):
        kind = self.pick("list", "number", "string", "symbol")
        return f"({self.pick('eql', 'equal', 'equalp')} {self.expression(kind, depth)} {self.expression(kind, depth)})"

    def symbol_by_case(self, _, depth):
        return f"(case {self.expression('symbol', depth)} ((a b) :first) (:key :second) (t :other))"

    def symbol_by_type(self, _, depth):
        kind = self.pick("list", "number", "string")
        return f"(typep {self.expression(kind, depth)} '{self.pick('list', 'real', 'string')})"

    # Lists

    def list_by_cons(self, _, depth):
        kind = self.pick("integer", "symbol", "string", "list", "number")
        return f"(cons {self.expression(kind, depth)} {self.expression('list', depth)})"

    def list_by_function(self, _, depth):
        return f"({self.pick('reverse', 'cdr', 'copy-tree', 'butlast')} {self.expression('list', depth)})"

    def list_by_append(self, _, depth):
        return f"(append {self.expression('list', depth)} {self.expression('list', depth)})"

    def list_by_sort(self, _, depth):
        return f"(sort (list {' '.join(self.expression('integer', depth) for _ in range(4))}) #'{self.pick('<', '>')})"

    def list_by_removal(self, _, depth):
        return f"({self.pick('remove', 'member')} {self.expression('symbol', depth)} {self.expression('list', depth)})"

    def list_by_backquote(self, _, depth):
        return f"`(x ,{self.expression('symbol', depth)} ,@{self.expression('list', depth)} y)"

    def list_by_hash_table(self, _, depth):
        key, value = self.expression("string", depth), self.expression("integer", depth)
        return (f"(let ((h (make-hash-table :test 'equal))) (setf (gethash {key} h) {value} (gethash 1 h) 2)"
                " (sort (loop for v being the hash-values of h collect v) #'<))")

    def list_by_values(self, _, depth):
        return f"(multiple-value-list (floor {self.expression('integer', depth)} {self.expression('integer', depth)}))"

    def list_by_collection(self, _, depth):
        name = self.name()
        body = self.within([(name, "integer")], "integer", depth)
        return f"(loop for {name} in (list 5 3 8) when (oddp {name}) collect {body})"

    def list_by_vector(self, _, depth):
        return f"(coerce (vector {self.expression('number', depth)} {self.expression('symbol', depth)}) 'list)"

    # Around everything

    def any_by_let(self, kind, depth):
        name, of = self.name(), self.pick("integer", "list", "string", "symbol")
        value = self.expression(of, depth)
        body = self.within([(name, of)], kind, depth)
        return f"({self.pick('let', 'let*')} (({name} {value})) (declare (ignorable {name})) {body})"

    def any_by_flet(self, kind, depth):
        function, name = self.name(), self.name()
        body = self.within([(name, "integer")], kind, depth)
        return (f"({self.pick('flet', 'labels')}"
                f" (({function} ({name}) (declare (ignorable {name})) {body}))"
                f" ({function} {self.expression('integer', depth)}))")

    def any_by_condition(self, kind, depth):
        return f"(if {self.expression('symbol', depth)} {self.expression(kind, depth)} {self.expression(kind, depth)})"

    def any_by_handler(self, kind, depth):
        otherwise = self.expression(kind, depth)
        return f"(handler-case {self.expression(kind, depth)} (error (c) (declare (ignore c)) {otherwise}))"

    def any_by_error(self, kind, depth):
        return f"(handler-case (error \"x\") (simple-error () {self.expression(kind, depth)}))"

    def any_by_exit(self, kind, depth):
        way = self.pick("(block out (return-from out {}))", "(catch 'out (throw 'out {}))", "(prog1 {} (list 1))",
                        "(unwind-protect {} (list 2))", "(multiple-value-prog1 {} nil)", "(funcall (lambda () {}))")
        return way.format(self.expression(kind, depth))

    def any_by_destructuring(self, kind, depth):
        one, other = self.name(), self.name()
        body = self.within([(one, "integer"), (other, "list")], kind, depth)
        return (f"(destructuring-bind ({one} &rest {other}) (list* {self.expression('integer', depth)}"
                f" {self.expression('list', depth)}) (declare (ignorable {one} {other})) {body})")

    def form(self):
        kinds = ("integer", "number", "string", "symbol", "list")
        if self.chance.random() < 0.15:
            inner = " ".join(self.expression(self.pick(*kinds), 2) for _ in range(self.chance.randrange(4)))
            return f"(values {inner})"
        return self.expression(self.pick(*kinds), self.chance.randrange(1, 5))


def plain_values(forms, directory):
    """For each form the printed values that one plain ECL process gives."""
    source, program = directory / "forms.lisp", directory / "plain.lisp"
    source.write_text("\n".join(forms) + "\n", encoding="utf-8")
    program.write_text(PLAIN.format(path=source, value=VALUE, form=FORM), encoding="utf-8")
    done = subprocess.run(["ecl", "--norc", "--shell", program], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=300, check=False, env={**os.environ, "LANG": "C.UTF-8"})
    answers = done.stdout.decode().split(FORM)
    assert done.returncode == 0 and len(answers) == len(forms) + 1, (done.returncode, done.stderr[-2000:], answers[-1])
    return [answer.split(VALUE)[1:] for answer in answers[:-1]]


def session_values(session, form):
    result = session.evaluate(form)
    assert result.kind == "r", (form, result)
    if result.outcome_name == "DONE":
        return result.value
    return [":ERROR"]


def test_random_lisp_evaluates_to_what_a_plain_ecl_makes_of_it(worker, tmp_path):
    generator = Generator(random.Random(SEED))
    forms = [generator.form() for _ in range(COUNT)]
    errors = 0
    for number, (form, plain) in enumerate(zip(forms, plain_values(forms, tmp_path))):
        found = session_values(worker, form)
        if plain[:1] == [":ERROR"]:
            errors += 1
            plain = [":ERROR"]
        assert found == plain, f"form {number} of seed {SEED}: {form}"
    print(f"{COUNT} forms, {errors} of them errors")
    assert errors < COUNT / 2


def test_a_batch_of_forms_in_one_evaluation_gives_the_values_of_the_last(worker, tmp_path):
    generator = Generator(random.Random(SEED + 1))
    forms = [f"(ignore-errors {generator.form()})" for _ in range(max(10, COUNT // 10))]
    plain = plain_values(forms, tmp_path)
    for end in range(5, len(forms) + 1, 5):
        result = worker.evaluate("\n".join(forms[end - 5:end]))
        assert result.outcome_name == "DONE" and result.forms == 5, result
        if "NIL" not in plain[end - 1][:1]:
            assert result.value == plain[end - 1], forms[end - 1]


@pytest.mark.parametrize("seed", range(3))
def test_the_generator_is_repeatable(seed):
    one, other = Generator(random.Random(seed)), Generator(random.Random(seed))
    assert [one.form() for _ in range(50)] == [other.form() for _ in range(50)]
