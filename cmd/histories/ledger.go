package main

import "context"

type lateFault struct {
	history *history
	why     []string
}

func (w *world) owes(ctx context.Context, h *history, p *person) []string { return nil }
func (w *world) settle(ctx context.Context) []lateFault                   { return nil }
