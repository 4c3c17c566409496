# fish completion for cairn
function __cairn_words
	set -l typed (commandline -opc)
	set -l found (command cairn complete -- $typed[2..] (commandline -ct) 2>/dev/null)
	if set -q found[1]
		string join -- \n $found
	else
		__fish_complete_path (string replace -r -- '^--[^=]*=' '' (commandline -ct))
	end
end
complete -c cairn -e
complete -c cairn -f -a '(__cairn_words)'
