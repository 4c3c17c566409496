package account

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

// Limits of requests to join.
const (
	// JoinRequestLifetime is how long a request waits for a decision before it is deleted.
	JoinRequestLifetime = 30 * 24 * time.Hour
	// MaxJoinRequests is how many wait at most.
	MaxJoinRequests = 200
	// MaxJoinMailbox is how many wait of one mailbox: a family asks for its children.
	MaxJoinMailbox = 5

	// JoinMailWait is how long the mail of a request waits at most for those before it.
	JoinMailWait = 24 * time.Hour
)

// JoinRequest is what somebody without an invite asks for. It is stored once they have proven their address.
type JoinRequest struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Email     string    `json:"email"`
	Mailbox   string    `json:"-"` // of Email: see mailboxOf
	Reason    string    `json:"reason"`
	Language  string    `json:"language"`
	App       string    `json:"app"` // a client id to which joining leads, or ""
	AskedAt   time.Time `json:"asked_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// JoinStore keeps requests to join, which an administrator decides. Those that have expired count as gone.
type JoinStore interface {
	// AddJoinRequest adds a request, or replaces that of the same address, and spends the link by which it came.
	// ErrInvalidLink if that was spent before; ErrJoinFull if there are most others: then
	// nothing is spent.
	AddJoinRequest(ctx context.Context, r JoinRequest, link []byte, most int, a Audit) error
	// JoinMailAt returns when the next mail of a request to join leaves: as many as the rate at once, further ones
	// at that pace. ErrRateLimited if that is more than JoinMailWait later: then none is counted.
	JoinMailAt(ctx context.Context, rate web.Rate, now time.Time) (time.Time, error)
	// JoinsUntold reports whether requests were added since administrators were told, and when that
	// was. TellJoins tells them with the mails, unless they were told since before.
	JoinsUntold(ctx context.Context) (some bool, told time.Time, err error)
	TellJoins(ctx context.Context, before, now time.Time, mails []Mail) error
	// JoinRequests lists the requests, oldest first.
	JoinRequests(ctx context.Context, now time.Time) ([]JoinRequest, error)
	// JoinRequest returns a request. ErrJoinNotFound.
	JoinRequest(ctx context.Context, id string, now time.Time) (JoinRequest, error)
	// DecideJoinRequest deletes a request, and adds the invite unless it is nil. ErrJoinNotFound.
	DecideJoinRequest(ctx context.Context, id string, i *Invite, a Audit) error
}
