# Completion for cl-mcpctl, cl-mcp-shim and cl-mcpd in bash.
# shellcheck shell=bash

# The ids of the sessions that run now.
_cl_mcp_sessions() {
  cl-mcpctl status 2>/dev/null | grep -o 'session-[0-9]\{8\}-[0-9]\{6\}-[0-9A-F]\{4\}'
}

_cl_mcp() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words=
  case $before in
    --session) words=$(_cl_mcp_sessions) ;;
    --socket) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    --ready-fd | --retain-days) return ;;
    --quota) words="sessions= storage="; compopt -o nospace ;;
    --limit | --ceiling)
      words="timeout= load-timeout= max-heap= max-output= max-value= max-nesting="
      compopt -o nospace
      ;;
    *)
      case ${COMP_WORDS[0]##*/} in
        cl-mcp-shim) words="--session --resume --wait --help --version" ;;
        cl-mcpd)
          words="--socket --ready-fd --limit --ceiling --quota --retain-days --hibernate-after --keep-free --save-after --verbose --help --version"
          ;;
        cl-mcpctl)
          case " ${COMP_WORDS[*]:1:COMP_CWORD-1} " in
            *" repl "*) words="--session --resume" ;;
            *" status "*) words="--json" ;;
            *" hibernate "*) words=$(_cl_mcp_sessions) ;;
            *" backup "*) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
            *" compact "* | *" shutdown "* | *" help "*) ;;
            *) words="repl status hibernate backup compact shutdown help --help --version" ;;
          esac
          ;;
      esac
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _cl_mcp cl-mcpctl cl-mcp-shim cl-mcpd
