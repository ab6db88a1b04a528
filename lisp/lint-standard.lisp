;;;; lint-standard.lisp - what the standard says of its functions: how many arguments they take, and of what types.
;;;;
;;;; ECL has such tables too, but they are written for other purposes, and wrong in some places (one argument for LAST).

(in-package :cl-mcp-runtime)

(defparameter *argument-counts*
  ;; Least and most; NIL: there is no most.
  '(((0 0)
     get-decoded-time get-internal-real-time get-internal-run-time get-universal-time lisp-implementation-type
     lisp-implementation-version list-all-packages long-site-name machine-instance machine-type machine-version
     short-site-name software-type software-version)
    ((0 1)
     abort clear-input clear-output compute-restarts continue copy-pprint-dispatch ed finish-output force-output
     fresh-line gensym listen make-random-state muffle-warning room terpri user-homedir-pathname)
    ((0 2)
     copy-readtable gentemp)
    ((0 4)
     read read-char read-char-no-hang read-line read-preserving-whitespace)
    ((0 5)
     peek-char)
    ((0 nil)
     * + append break dribble gcd lcm list logand logeqv logior logxor make-broadcast-stream make-concatenated-stream
     make-hash-table make-pathname make-string-output-stream nconc values vector y-or-n-p yes-or-no-p)
    ((1 1)
     1+ 1- abs acos acosh adjustable-array-p alpha-char-p alphanumericp arithmetic-error-operands
     arithmetic-error-operation array-dimensions array-displacement array-element-type array-has-fill-pointer-p
     array-rank array-total-size arrayp asin asinh atanh atom bit-vector-p both-case-p boundp
     broadcast-stream-streams byte-position byte-size caaaar caaadr caaar caadar caaddr caadr caar cadaar cadadr
     cadar caddar cadddr caddr cadr car cdaaar cdaadr cdaar cdadar cdaddr cdadr cdar cddaar cddadr cddar cdddar
     cddddr cdddr cddr cdr cell-error-name char-code char-downcase char-int char-name char-upcase character
     characterp cis class-name class-of clrhash code-char compiled-function-p complement complexp
     concatenated-stream-streams conjugate consp constantly copy-alist copy-list copy-seq copy-structure copy-tree
     cos cosh decode-float delete-file delete-package denominator directory-namestring echo-stream-input-stream
     echo-stream-output-stream eighth endp eval evenp exp fboundp fdefinition fifth file-author file-error-pathname
     file-length file-namestring file-write-date fill-pointer find-all-symbols find-package first float-digits
     float-precision float-radix floatp fmakunbound fourth function-keywords function-lambda-expression functionp
     get-output-stream-string graphic-char-p hash-table-count hash-table-p hash-table-rehash-size
     hash-table-rehash-threshold hash-table-size hash-table-test host-namestring identity imagpart input-stream-p
     inspect integer-decode-float integer-length integerp interactive-stream-p invoke-debugger
     invoke-restart-interactively isqrt keywordp length list-length listp load-logical-pathname-translations logcount
     logical-pathname logical-pathname-translations lognot lower-case-p make-instances-obsolete make-symbol
     make-synonym-stream makunbound method-qualifiers minusp name-char namestring ninth not nreverse null numberp
     numerator oddp open-stream-p output-stream-p package-error-package package-name package-nicknames
     package-shadowing-symbols package-use-list package-used-by-list packagep pathname pathname-version pathnamep
     phase plusp prin1-to-string princ-to-string print-not-readable-object probe-file proclaim provide random-state-p
     rational rationalize rationalp readtable-case readtablep realp realpart rest restart-name reverse second seventh
     signum simple-bit-vector-p simple-condition-format-arguments simple-condition-format-control simple-string-p
     simple-vector-p sin sinh sixth sleep special-operator-p sqrt standard-char-p stream-element-type
     stream-error-stream stream-external-format streamp string stringp sxhash symbol-function symbol-name
     symbol-package symbol-plist symbol-value symbolp synonym-stream-symbol tan tanh tenth third truename
     two-way-stream-input-stream two-way-stream-output-stream type-error-datum type-error-expected-type type-of
     unbound-slot-instance upper-case-p values-list vector-pop vectorp zerop)
    ((1 2)
     atan bit-not butlast ceiling compile compiler-macro-function complex constantp copy-symbol decode-universal-time
     describe digit-char digit-char-p enough-namestring export fceiling ffloor file-position find-restart find-symbol
     float float-sign floor fround ftruncate get-macro-character get-setf-expansion import intern last log
     macro-function macroexpand macroexpand-1 make-load-form nbutlast pprint pprint-dispatch pprint-newline prin1
     princ print random require round shadow shadowing-import store-value truncate unexport unintern unread-char
     unuse-package upgraded-array-element-type upgraded-complex-part-type use-package use-value wild-pathname-p
     write-char)
    ((1 3)
     apropos apropos-list find-class make-dispatch-macro-character make-string-input-stream merge-pathnames read-byte
     read-delimited-list)
    ((1 nil)
     - / /= < <= = > >= allocate-instance aref array-in-bounds-p array-row-major-index bit char-equal char-greaterp
     char-lessp char-not-equal char-not-greaterp char-not-lessp char/= char< char<= char= char> char>= close
     compile-file compile-file-pathname concatenate delete-duplicates directory disassemble ensure-directories-exist
     ensure-generic-function error funcall initialize-instance invoke-restart list* load make-array make-condition
     make-instance make-list make-load-form-saving-slots make-package make-string max method-combination-error min
     no-applicable-method nstring-capitalize nstring-downcase nstring-upcase open parse-integer parse-namestring
     pathname-device pathname-directory pathname-host pathname-name pathname-type read-from-string
     reinitialize-instance remove-duplicates sbit signal string-capitalize string-downcase string-upcase
     translate-logical-pathname warn write write-line write-string write-to-string)
    ((2 2)
     add-method array-dimension ash byte char coerce compute-applicable-methods cons describe-object documentation
     elt eq eql equal equalp expt file-string-length get-properties ldb ldb-test ldiff logandc1 logandc2 logbitp
     lognand lognor logorc1 logorc2 logtest make-echo-stream make-two-way-stream maphash mask-field mod nreconc nth
     nthcdr pathname-match-p print-object rem remhash remove-method remprop revappend row-major-aref rplaca rplacd
     scale-float schar set slot-boundp slot-exists-p slot-makunbound slot-value string-left-trim string-right-trim
     string-trim svref tailp vector-push write-byte)
    ((2 3)
     bit-and bit-andc1 bit-andc2 bit-eqv bit-ior bit-nand bit-nor bit-orc1 bit-orc2 bit-xor get
     get-dispatch-macro-character getf gethash pairlis pprint-indent rename-package subseq subtypep typep
     vector-push-extend)
    ((2 4)
     pprint-fill pprint-linear set-macro-character set-pprint-dispatch set-syntax-from-char)
    ((2 5)
     pprint-tabular)
    ((2 nil)
     adjoin adjust-array apply assoc assoc-if assoc-if-not cerror change-class count count-if count-if-not delete
     delete-if delete-if-not every fill find find-if find-if-not format intersection invalid-method-error
     make-sequence map-into mapc mapcan mapcar mapcon mapl maplist member member-if member-if-not mismatch
     nintersection no-next-method notany notevery nset-difference nset-exclusive-or nsublis nunion position
     position-if position-if-not rassoc rassoc-if rassoc-if-not read-sequence reduce remove remove-if remove-if-not
     rename-file replace search set-difference set-exclusive-or shared-initialize some sort stable-sort string-equal
     string-greaterp string-lessp string-not-equal string-not-greaterp string-not-lessp string/= string< string<=
     string= string> string>= sublis subsetp tree-equal union update-instance-for-different-class write-sequence)
    ((3 3)
     acons boole deposit-field dpb slot-unbound)
    ((3 4)
     find-method pprint-tab set-dispatch-macro-character)
    ((3 nil)
     map nsubst nsubst-if nsubst-if-not nsubstitute nsubstitute-if nsubstitute-if-not subst subst-if subst-if-not
     substitute substitute-if substitute-if-not translate-pathname)
    ((4 5)
     slot-missing)
    ((4 nil)
     merge update-instance-for-redefined-class)
    ((6 7)
     encode-universal-time)))

(defparameter *argument-types*
  ;; Types of the arguments that every call must have right, by position.
  '(((&rest number)
     + - * / = /=)
    ((&rest real)
     < > <= >= max min)
    ((number)
     1+ 1- abs conjugate cos exp expt log realpart imagpart signum sin sqrt tan zerop)
    ((real)
     minusp plusp rational rationalize)
    ((real real)
     ceiling fceiling ffloor floor fround ftruncate mod rem round truncate)
    ((&rest integer)
     gcd lcm logand logior logxor logeqv)
    ((integer integer)
     ash logbitp logtest)
    ((integer)
     evenp integer-length isqrt logcount lognot oddp)
    ((rational)
     denominator numerator)
    ((list)
     caaar caadr caar cadar caddr cadddr cadr car cdaar cdadr cdar cddar cdddr cddddr cddr cdr
     butlast copy-alist copy-list eighth endp fifth first fourth last list-length nbutlast ninth nreconc rest revappend
     second seventh sixth tenth third)
    ((cons)
     rplaca rplacd)
    ((integer list)
     nth nthcdr)
    ((t list)
     adjoin assoc assoc-if member member-if rassoc rassoc-if)
    ((t &rest list)
     mapc mapcan mapcar mapcon mapl maplist)
    ((list list)
     intersection nintersection nset-difference nunion set-difference set-exclusive-or subsetp union)
    ((sequence)
     copy-seq length nreverse reverse)
    ((sequence integer)
     elt subseq)
    ((sequence t)
     fill sort stable-sort)
    ((sequence sequence)
     mismatch replace search)
    ((t sequence)
     count count-if count-if-not delete delete-if delete-if-not find find-if find-if-not position position-if
     position-if-not reduce remove remove-if remove-if-not)
    ((t t sequence)
     nsubstitute nsubstitute-if substitute substitute-if)
    ((t &rest sequence)
     concatenate)
    ((t sequence)
     every notany notevery some)
    ((symbol)
     boundp copy-symbol makunbound set symbol-function symbol-name symbol-package symbol-plist symbol-value)
    ((symbol t)
     get remprop)
    ((character)
     alpha-char-p alphanumericp both-case-p char-code char-downcase char-int char-name char-upcase digit-char-p
     graphic-char-p lower-case-p standard-char-p upper-case-p)
    ((&rest character)
     char-equal char-greaterp char-lessp char-not-equal char/= char< char<= char= char> char>=)
    ((integer)
     code-char digit-char)
    ((string)
     find-symbol intern make-symbol parse-integer read-from-string write-line write-string)
    ((string integer)
     char schar)
    (((or string symbol character))
     string-capitalize string-downcase string-upcase)
    (((or string symbol character) (or string symbol character))
     string-equal string-greaterp string-lessp string/= string< string<= string= string> string>=)
    ((sequence (or string symbol character))
     string-left-trim string-right-trim string-trim)
    ((t hash-table)
     gethash maphash remhash)
    ((hash-table)
     clrhash hash-table-count hash-table-size hash-table-test)
    ((array &rest integer)
     aref array-row-major-index)
    ((array)
     array-dimensions array-element-type array-rank array-total-size)
    ((t vector)
     vector-push vector-push-extend)
    ((vector)
     fill-pointer vector-pop)))

(defun table-by-name (rows)
  "A hash table of the names in ROWS: each is a value and the names that have it."
  (let ((table (make-hash-table :test 'eq)))
    (loop for (value . names) in rows
          do (dolist (name names)
               (setf (gethash name table) value)))
    table))

(defvar *counts-by-name* (table-by-name *argument-counts*))
(defvar *types-by-name* (table-by-name *argument-types*))

(defun standard-counts (name)
  "The least and the most arguments that the standard function NAME takes, as a list; NIL if that is not known."
  (gethash name *counts-by-name*))

(defun map-argument-types (function name arguments)
  "Call FUNCTION with each of ARGUMENTS and the type that the standard function NAME wants there. Some that take any number
of arguments do not look at a single one."
  (let ((types (gethash name *types-by-name*)))
    (loop for argument in (if (and (eq (first types) '&rest) (null (rest arguments))) '() arguments)
          while types
          do (when (eq (first types) '&rest)
               (setf types (cons (second types) types)))
             (funcall function argument (pop types)))))
