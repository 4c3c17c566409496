# bash completion for cairn
_cairn() {
	local line=${COMP_LINE:0:COMP_POINT} word found typed
	word=${line##*[[:space:]]}
	read -ra typed <<<"${line%"$word"}"
	COMPREPLY=()
	while IFS=$'\t' read -r found _; do # compgen -W would run what an id says
		if [[ $found == "$word"* ]]; then
			printf -v found %q "${found#"${word%"${word##*[:=]}"}"}" # bash takes words apart at : and =
			COMPREPLY+=("$found")
		fi
	done < <(command cairn complete -- "${typed[@]:1}" "$word" 2>/dev/null)
}
complete -o default -F _cairn cairn
