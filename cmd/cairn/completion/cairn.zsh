#compdef cairn
_cairn() {
	local -a found
	found=(${(f)"$(command cairn complete -- "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)"})
	found=(${found//:/\\:})
	found=(${found/$'\t'/:})
	if (( $#found )); then
		_describe word found
	else
		compset -P '--*='
		_files
	fi
}
if [[ ${funcstack[1]} == _cairn ]]; then
	_cairn "$@"
else
	compdef _cairn cairn
fi
