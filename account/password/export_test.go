package password

// CountWork adds the work of each hash that is verified from now on to the result, by kind.
func (h *Hasher) CountWork() map[string]int {
	done := map[string]int{}
	h.verified = func(hash string) {
		w, _ := workOf(hash)
		done[w.kind] += w.amount
	}
	return done
}
