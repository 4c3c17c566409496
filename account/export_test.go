package account

import (
	"context"
	"time"
)

// What only the fuzz tests of parsers need.
const (
	InviteCodeLength = inviteCodeLength
	ResetCodeLength  = resetCodeLength
)

var (
	NewCode       = newCode
	CanonicalCode = canonicalCode
	Grouped       = grouped
	AccountKey    = accountKey
	NoticeKinds   = plainNotices
)

// DeliverMails sends all that is due, as SendMails does.
func (s *Service) DeliverMails(ctx context.Context) error {
	for {
		due, err := s.store.DueMails(ctx, s.now(), time.Minute, 100)
		if err != nil || len(due) == 0 {
			return err
		}
		for _, m := range due {
			s.deliverMail(ctx, m)
		}
	}
}

// ProvenTokens are how many session tokens are remembered.
func (s *Service) ProvenTokens() int { return len(s.proven.young) + len(s.proven.aged) }

const MaxProvenTokens = maxProven
