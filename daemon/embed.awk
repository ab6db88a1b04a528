# Turns text files into C strings. Variables: none; each file becomes `embedded_NAME`, NAME given before it on the
# command line as name=NAME. With statements=1 each block under a line "-- NAME:" becomes `sql_NAME` instead.
function quote(line) {
	gsub(/\\/, "\\\\", line)
	gsub(/"/, "\\\"", line)
	return "\t\"" line "\\n\"\n"
}
function open_string(identifier) {
	close_string()
	printf "static const char %s[] __attribute__((unused)) =\n", identifier
	is_open = 1
	empty = 1
}
function close_string() {
	if (is_open)
		printf "%s;\n\n", empty ? "\t\"\"" : ""
	is_open = 0
}
BEGIN {
	print "/* Made by embed.awk; do not edit. */"
}
FNR == 1 {
	if (!statements)
		open_string("embedded_" name)
}
statements && /^-- [a-z_]+:$/ {
	identifier = $2
	sub(/:$/, "", identifier)
	open_string("sql_" identifier)
	next
}
is_open && !(statements && /^(--|$)/) {
	printf "%s", quote($0)
	empty = 0
}
END {
	close_string()
}
