"""
What a session must contain, and what its client must have been told, whatever has been killed.

Every evaluation of a client has a number of its own in its code. Those that count push it onto a list in the session, and answer
with what they found there: so each answer shows whether one before it was lost, or ran twice, or ran out of its turn.
"""

import json
import re
import threading

PRELUDE = """(progn
  (do-symbols (symbol *package*)
    (when (and (eql 0 (search "MARK-" (symbol-name symbol))) (fboundp symbol)) (fmakunbound symbol)))
  (defparameter *marks* nil)
  (defun remember (number rest)
    (let ((before (first *marks*)))
      (push number *marks*)
      (unless (zerop rest) (sleep rest))
      (list number (length *marks*) before (ext:getpid))))
  (defmacro mark (number &optional (rest 0))
    `(progn (defun ,(intern (format nil "MARK-~d" number)) () ,number) (remember ,number ,rest)))
  (defun marks (number)
    (list number (length *marks*)
          (let ((count 0)) (do-symbols (symbol *package* count)
            (when (and (eql 0 (search "MARK-" (symbol-name symbol))) (fboundp symbol)) (incf count))))
          (mapcar (lambda (mark) (funcall (intern (format nil "MARK-~d" mark))))
                  (reverse (subseq *marks* 0 (min 90 (length *marks*)))))))
  {number})"""

NOTHING_LOST = "The session goes on with everything that was answered before."
UNDONE = re.compile(r"The session goes on as it was (\d+) evaluations? before\. Undone, and not repeated: ([^\n]*)")
NEW = "goes on in a new process"
NOTE = re.compile(r"(?:\[warnings\]\n|\n\n\[warnings\]\n)SESSION-(RESTORED|RESTARTED): ([^\n]*)(?:\n\n|$)")
MARK = re.compile(r"=> \((\d+) (\d+) (NIL|\d+) (\d+)\)")
AUDIT = re.compile(r"=> \((\d+) (\d+) (\d+) (NIL|\([\d ]*\))\)")  # with single spaces
SHOWN = 90  # of the marks, in an audit


class Broken(AssertionError):
    """A promise that was not kept."""


def without_cause(text):
    """A daemon that finds a session knows less of how its process ended than one that saw it."""
    text = NOTE.sub("", text)  # which a daemon that has died may have told
    return re.sub(r"The (Lisp process|session's Lisp process|connection)[^.]*\.( \([^)]*\)\.)?", "It died.", text)


def check(holds, *facts):
    if not holds:
        raise Broken("; ".join(str(fact) for fact in facts))


class Step:
    """One evaluation."""

    def __init__(self, number, kind, code, protect=False):
        self.number, self.kind, self.code, self.protect = number, kind, code, protect
        self.fate = "sent"  # then answered, interrupted, undone, refused, unknown
        self.text = None  # as answered

    @property
    def shown(self):
        """As it is quoted."""
        shown = self.code[:80] + ("..." if len(self.code) > 80 else "")
        return re.sub("[\0-\x1f]", " ", shown)


class Session:
    """One session. Its client calls in the order of its requests; whoever kills, from another thread."""

    def __init__(self, name):
        self.name, self.id, self.pid = name, None, 0
        self.lock = threading.Lock()
        self.numbers = 0
        self.steps = {}
        self.present = []  # what was answered and is not undone, in order
        self.deaths = 0  # of its processes, that we know of,
        self.unheard = 0  # and of which nobody may be told: their client died
        self.told = 0
        self.repeated = 0  # that something was named as undone although it had been before
        self.may_be_gone = False  # process and copy were killed
        self.is_gone = False  # the prelude has to come again
        self.pids = set()

    # What is asked

    def _add(self, kind, code, protect=False):
        self.numbers += 1
        step = Step(self.numbers, kind, code.replace("{number}", str(self.numbers)), protect)
        self.steps[step.number] = step
        return step

    def prelude(self):
        return self._add("prelude", PRELUDE, True)

    def mark(self, rest=0, protect=False):
        return self._add("mark", "(mark {number} %s)" % rest if rest else "(mark {number})", protect)

    def audit(self):
        return self._add("audit", "(marks {number})")

    # What happens

    def note_death(self, pids, may_be_gone=False):
        with self.lock:
            self.deaths += 1
            self.pids.update(pids)
            self.may_be_gone |= may_be_gone

    def marks(self):
        return [step.number for step in self.present if step.kind == "mark"]

    def _undo(self, text, step):
        """What the text says of the session's end and beginning."""
        with self.lock:
            deaths, may_be_gone = self.deaths, self.may_be_gone
        where = f"{self.name}, {step.code!r} was answered with {text!r}"
        if not text.endswith(NOTHING_LOST) and not UNDONE.search(text) or NEW in text:
            # It has what could be made again from what was stored, which is another's promise.
            check(may_be_gone, f"{where}, but its copy was never killed")
            self._forget_all()
            return
        if text.endswith(NOTHING_LOST):
            self._count_told(where, deaths)
            return
        match = UNDONE.search(text)
        named = match[2].split("; ")
        check(int(match[1]) == len(named), f"{where}: that is not {len(named)}")
        # What an answer has told that was on its way when both ends died is told once more.
        there, gone = {one.shown for one in self.present}, {one.shown for one in self.steps.values() if one.fate not in ("sent", "answered")}
        again = [code for code in named if code not in there]
        check(set(again) <= gone, f"{where}, but never was there {set(again) - gone}")
        self.repeated += len(again)
        named = [code for code in named if code in there]
        count = len(named)
        if count:
            self._count_told(where, deaths)
        tail = self.present[len(self.present) - count:]
        check([lost.shown for lost in tail] == named, f"{where}, but what it can undo is {[lost.shown for lost in tail]}")
        for lost in tail:
            check(not lost.protect or may_be_gone, f"{where}: {lost.code} was protected")
            lost.fate = "undone"
        self.is_gone |= any(lost.kind == "prelude" for lost in tail)
        del self.present[len(self.present) - count:]

    def _forget_all(self):
        for lost in self.present:
            lost.fate = "undone"
        self.present, self.is_gone = [], True

    def _count_told(self, where, deaths):
        self.told += 1
        check(self.told <= deaths, f"{where}, which tells of death {self.told}, but only {deaths} happened")

    def take(self, step, answer):
        """The answer to a step, which is a JSON-RPC message."""
        where = f"{self.name}, {step.code!r}"
        if "error" in answer:  # the shim has answered
            message = answer["error"]["message"]
            step.fate = "unknown" if "may have been carried out" in message else "refused"
            return message
        result = answer["result"]
        text = step.text = "\n".join(block["text"] for block in result["content"])
        if text.startswith("[ERROR] WORKER-DIED\n"):
            step.fate = "interrupted"
            check("will not be repeated" in text, where, text)
            self._undo(text.rstrip("\n"), step)
            return None
        if text.startswith("[ERROR] STORAGE-FAILED\n"):
            step.fate = "refused"
            return text
        if match := NOTE.search(text):
            self._undo(match[2], step)
            text = NOTE.sub("", text)
        step.fate = "answered"
        self._check_value(step, text, where)
        self.present.append(step)
        return None

    def _check_value(self, step, text, where):
        present = self.marks()
        if self.is_gone and step.kind != "prelude":
            step.kind = "nothing"  # until the prelude comes again
            return
        if step.kind == "mark":
            match = MARK.fullmatch(text)
            check(match, where, f"was answered with {text!r}")
            found = (int(match[1]), int(match[2]), match[3])
            wanted = (step.number, len(present) + 1, str(present[-1]) if present else "NIL")
            check(found == wanted, where, f"found {found} instead of {wanted}", f"present: {present[-20:]}")
            with self.lock:
                self.pid = int(match[4])
        elif step.kind == "audit":
            match = AUDIT.fullmatch(" ".join(text.split()))
            check(match, where, f"was answered with {text!r}")
            check(self._found(match, present) == present, where, f"was answered with {text!r}", f"present: {present[-20:]}")
        else:
            check(text == f"=> {step.number}", where, f"was answered with {text!r}")
            self.is_gone = False

    @staticmethod
    def _found(match, before):
        """All marks that an audit has found; those at the beginning, which it does not show, are as before."""
        last = [int(number) for number in match[4].strip("()").split()] if match[4] != "NIL" else []
        count, functions = int(match[2]), int(match[3])
        check(count == functions and len(last) == min(count, SHOWN), f"an audit found {count} marks and {functions} functions: {last}")
        return before[:count - len(last)] + last

    # Its client is dead, and another one looks

    def lose_client(self, steps):
        """They were sent, and nobody has heard of them: each ran once, in its turn, or did not run."""
        for step in steps:
            step.fate = "unknown"

    def reconcile(self, unknown, text, step):
        """
        An audit that tells what came of them. Nobody was told of what was undone meanwhile either: what is missing is the end of what
        there was.
        """
        where = f"{self.name}, {step.code!r} after a lost client"
        note = NOTE.search(text)
        text = NOTE.sub("", text)
        if note and NEW in note[2]:
            check(self.may_be_gone, where, text)
            self._forget_all()
            return
        match = AUDIT.fullmatch(" ".join(text.split()))
        if not match:
            check(self.may_be_gone, where, f"was answered with {text!r}")
            self.is_gone = True
        before = self.marks()
        found = self._found(match, before) if match else []
        kept = 0
        while kept < min(len(before), len(found)) and before[kept] == found[kept]:
            kept += 1
        check(kept == len(before) or self.deaths > self.told + self.unheard, where, f"{before[kept:]} are gone, and nothing has died")
        rest, candidates = found[kept:], [one for one in unknown if one.kind == "mark"]
        check(set(rest) <= {one.number for one in candidates} and rest == sorted(set(rest)), where, f"found {rest} after {before[-20:]}")
        cut = next((i for i, one in enumerate(self.present) if one.kind == "mark" and one.number in before[kept:]), len(self.present))
        for lost in self.present[cut:]:
            check(not lost.protect or self.may_be_gone, where, f"{lost.code} was protected and is gone")
            lost.fate = "undone"
        self.is_gone |= any(lost.kind == "prelude" for lost in self.present[cut:])
        del self.present[cut:]
        self.present += [one for one in candidates if one.number in rest]
        self.present.append(step)
        for one in candidates:
            if one.number in rest:
                one.fate = "found"
        step.fate, step.text = "answered", None
        with self.lock:
            self.unheard = self.deaths - self.told

    # What the database must hold

    def check_transcript(self, rows):
        """Rows are (role, content), in order."""
        position = 0
        seen = []
        by_code = {step.code: step for step in self.steps.values()}
        while position < len(rows):
            role, code = rows[position]
            if role == "tool" and self.may_be_gone:  # what a session has been made again with
                position += 1
                continue
            check(role == "user" and code in by_code, f"{self.name}: its transcript has {rows[position]} where a question should be")
            check(position + 1 < len(rows) and rows[position + 1][0] != "user", f"{self.name}: its transcript has no answer to {code!r}")
            step, text = by_code[code], rows[position + 1][1]
            # Daemon and worker died together, between answer and record.
            is_undone = step.fate == "undone" and text.startswith("[ERROR] WORKER-DIED\n")
            check(step.text is None or is_undone or without_cause(step.text) == without_cause(text),
                  f"{self.name}: {code!r} was answered with {step.text!r}, and its transcript has {text!r}")
            check(step.fate != "refused", f"{self.name}: {code!r} was refused, and its transcript has {text!r}")
            seen.append(step.number)
            position += 2
        check(seen == sorted(set(seen)), f"{self.name}: its transcript is not in order: {seen}")
        # What was interrupted with all there was of the session, and the daemon at the same time, is known to nobody.
        missing = [(step.code, step.fate, step.text) for step in self.steps.values()
                   if step.fate in ("answered", "interrupted", "found") and step.number not in seen and step.text is not None
                   and not (step.fate == "interrupted" and self.may_be_gone)]
        check(not missing, f"{self.name}: its transcript lacks {missing}")
        return len(seen)


def rows_of(database, session):
    """What clients have evaluated; not what makes a session again from what is stored."""
    return database.execute("""SELECT role, content FROM messages WHERE session = ?1 AND seq NOT IN
        (SELECT seq FROM messages WHERE session = ?1 AND operation IS NOT NULL) ORDER BY number""", [session]).fetchall()


def describe(sessions):
    fates = {}
    for session in sessions:
        for step in list(session.steps.values()):  # its client adds to it meanwhile
            fates[step.fate] = fates.get(step.fate, 0) + 1
    return json.dumps(dict(sorted(fates.items())))
