package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/engine"
)

// apiRow is a provider.API with how its members are stored; its secrets are in storedAPI.
type apiRow struct {
	URI        string `gorm:"column:uri"`
	Name, ID   string
	Secrets    []provider.ClientSecret `gorm:"-"`
	Scopes     []provider.APIScope     `gorm:"-"` // in api_scopes
	Opaque     bool
	Lifetime   time.Duration `gorm:"serializer:seconds"`
	Algorithm  string        `gorm:"column:alg"`
	Claims     []string      `gorm:"serializer:lines"`
	AllClients bool
	Clients    []string  `gorm:"-"` // in api_clients
	CreatedAt  time.Time `gorm:"autoCreateTime:false;serializer:unix"`
	Managed    bool
}

// storedAPI is a row of the table apis.
type storedAPI struct {
	Row                     apiRow `gorm:"embedded"`
	Secret, Previous        []byte
	SecretAt, PreviousUntil time.Time `gorm:"serializer:unix"`
}

type apiScopeRow struct {
	Name     string
	URI      string `gorm:"column:uri"`
	Position int
	Sentence string
}

type apiClientRow struct {
	URI      string `gorm:"column:uri"`
	ClientID string
}

func (r storedAPI) api() *provider.API {
	a := provider.API(r.Row)
	a.Secrets = []provider.ClientSecret{{Hash: r.Secret, CreatedAt: r.SecretAt}}
	if len(r.Previous) > 0 {
		a.Secrets = append(a.Secrets, provider.ClientSecret{Hash: r.Previous, ExpiresAt: r.PreviousUntil})
	}
	return &a
}

var apiColumns = engine.ColumnsOf[storedAPI]("apis")

// APIs implements provider.Storage.
func (s *Store) APIs(ctx context.Context) ([]*provider.API, error) {
	all, err := readAPIs(s.conn(ctx))
	return all, fail("list APIs", err)
}

func readAPIs(db *gorm.DB) ([]*provider.API, error) {
	var rows []storedAPI
	err := db.Raw("SELECT " + apiColumns + " FROM apis ORDER BY uri").Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return []*provider.API{}, err
	}
	var scopes []apiScopeRow
	err = db.Raw(`SELECT name, uri, position, sentence FROM api_scopes
		ORDER BY uri, position`).Find(&scopes).Error
	if err != nil {
		return nil, err
	}
	var clients []apiClientRow
	err = db.Raw(`SELECT a.uri, a.client_id FROM api_clients a JOIN clients k ON k.id = a.client_id
		WHERE k.removed_at = 0 ORDER BY a.uri, a.client_id`).Find(&clients).Error
	if err != nil {
		return nil, err
	}
	all := each(rows, storedAPI.api)
	for _, a := range all {
		for _, r := range scopes {
			if r.URI == a.URI {
				a.Scopes = append(a.Scopes, provider.APIScope{Name: r.Name, Sentence: r.Sentence})
			}
		}
		for _, r := range clients {
			if r.URI == a.URI {
				a.Clients = append(a.Clients, r.ClientID)
			}
		}
	}
	return all, nil
}

// CreateAPI returns provider.ErrAPIExists, the *provider.RegistrationError of API.Check, or one about a scope of
// another API or an unknown client. The detail of its audit row is the Changes from NewAPI.
func (s *Store) CreateAPI(ctx context.Context, a *provider.API, audit account.Audit) error {
	if err := a.Check(); err != nil {
		return fmt.Errorf("create API: %w", err)
	}
	row := storedAPI{Row: apiRow(*a), Secret: a.Secrets[0].Hash, SecretAt: a.Secrets[0].CreatedAt}
	defaults, _ := provider.NewAPI(a.URI, a.Name, a.CreatedAt)
	audit.Detail = changed(defaults, a)
	return s.write(ctx, "create API", func(tx *engine.Tx) {
		once := clause.OnConflict{Columns: []clause.Column{{Name: "uri"}}, DoNothing: true}
		tx.Expect(tx.Ran(tx.Table("apis").Clauses(once).Create(&row)), provider.ErrAPIExists)
		insertAPIParts(tx, a)
		insertAudit(tx, audit)
	})
}

// insertAPIParts adds the scopes and the clients of an API.
func insertAPIParts(tx *engine.Tx, a *provider.API) {
	for i, scope := range a.Scopes {
		row := apiScopeRow{Name: scope.Name, URI: a.URI, Position: i, Sentence: scope.Sentence}
		const reason = "another API has a scope of this name"
		taken := &provider.RegistrationError{Member: "scopes", Value: scope.Name, Reason: reason}
		once := clause.OnConflict{Columns: []clause.Column{{Name: "name"}}, DoNothing: true}
		tx.Expect(tx.Ran(tx.Table("api_scopes").Clauses(once).Create(&row)), taken)
	}
	clients := slices.Clone(a.Clients)
	slices.Sort(clients)
	for _, id := range slices.Compact(clients) {
		const reason = "there is no such client: cairn client list shows them"
		none := &provider.RegistrationError{Member: "clients", Value: id, Reason: reason}
		if invalidKey(id) {
			tx.Refuse(none)
		}
		tx.Expect(tx.Exec(`INSERT INTO api_clients (uri, client_id) SELECT ?, id FROM clients
			WHERE id = ? AND removed_at = 0`, a.URI, id), none)
	}
}

// UpdateAPI replaces everything but the URI, the id, the secrets and CreatedAt. It returns provider.ErrAPINotFound or
// an error of CreateAPI. The detail of its audit row is the Changes; without any, nothing is written.
func (s *Store) UpdateAPI(ctx context.Context, a *provider.API, audit account.Audit) error {
	if err := a.Check(); err != nil {
		return fmt.Errorf("update API: %w", err)
	}
	return s.actOnMany(ctx, "update API", audit, func(tx *engine.Tx) {
		lockAPI(tx, a.URI)
		all, err := readAPIs(tx.DB)
		if tx.Refuse(err); tx.Failed() {
			return
		}
		before := all[slices.IndexFunc(all, func(b *provider.API) bool { return b.URI == a.URI })]
		if audit.Detail = changed(before, a); audit.Detail == "" {
			return
		}
		same := []string{"uri", "id", "created_at", "managed"}
		tx.Ran(tx.Table("apis").Where("uri = ?", a.URI).Select("*").Omit(same...).Updates((*apiRow)(a)))
		tx.Exec("DELETE FROM api_scopes WHERE uri = ?", a.URI)
		tx.Exec("DELETE FROM api_clients WHERE uri = ?", a.URI)
		insertAPIParts(tx, a)
		insertAudit(tx, audit)
		revokeForAPI(tx, before, a)
	})
}

// lockAPI serializes the changes of an API.
func lockAPI(tx *engine.Tx, uri string) {
	tx.Expect(tx.Exec("UPDATE apis SET name = name WHERE uri = ?", uri), provider.ErrAPINotFound)
}

// RotateAPISecret adds a new secret and lets the current one expire at until. A previous secret that still works is
// provider.ErrSecretOverlap, unless endOthers is set, which ends it at once. provider.ErrAPINotFound.
func (s *Store) RotateAPISecret(
	ctx context.Context, uri string, n provider.ClientSecret, until time.Time, endOthers bool, audit account.Audit,
) error {
	free := toUnix(n.CreatedAt)
	if endOthers {
		free = math.MaxInt64
	}
	return s.write(ctx, "rotate secret of API", func(tx *engine.Tx) {
		lockAPI(tx, uri)
		tx.Expect(tx.Exec(`UPDATE apis SET previous = secret, previous_until = ?, secret = ?, secret_at = ?
			WHERE uri = ? AND previous_until <= ?`, toUnix(until), n.Hash, toUnix(n.CreatedAt), uri, free),
			provider.ErrSecretOverlap)
		insertAudit(tx, audit)
	})
}

// RemoveAPI returns provider.ErrAPINotFound for an unknown API.
func (s *Store) RemoveAPI(ctx context.Context, uri string, audit account.Audit) error {
	return s.actOnMany(ctx, "remove API", audit, func(tx *engine.Tx) {
		lockAPI(tx, uri)
		all, err := readAPIs(tx.DB)
		if tx.Refuse(err); tx.Failed() {
			return
		}
		tx.Exec("DELETE FROM apis WHERE uri = ?", uri)
		insertAudit(tx, audit)
		revokeForAPI(tx, all[slices.IndexFunc(all, func(b *provider.API) bool { return b.URI == uri })], nil)
	})
}
