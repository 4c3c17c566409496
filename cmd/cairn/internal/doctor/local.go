package doctor

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/cmd/cairn/internal/libcrypto"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
)

// settings fills in what all other checks need.
func settings(x *examination) Finding {
	var err error
	if x.checked, err = x.Settings.Check(); err != nil {
		return found(Problem, "Correct it in cairn.yaml, the environment or the flags; cairn serve does not start with it.", "%v.", err)
	}
	changed := x.Settings.Changed()
	if len(changed) == 0 {
		return ok("All settings have their defaults.")
	}
	return ok("Settings other than the defaults: %s.", strings.Join(changed, ", "))
}

func settingsConflicts(_ context.Context, x *examination) Finding {
	if w := x.checked.Warnings(); len(w) > 0 {
		return found(Warning, "Change it in cairn.yaml or the environment and restart cairn serve.", "%s.", strings.Join(w, "; "))
	}
	return ok("The settings fit together.")
}

// dataKey looks at the file, and whether all is sealed with it.
func dataKey(ctx context.Context, x *examination) Finding {
	const seal = "Run cairn keys seal, with every instance on this version; docs/keys.md has the rest."
	file := x.checked.DataKeyFile
	if file != "" {
		_, err := config.LoadDataKey(file)
		unused := errors.Is(err, os.ErrNotExist) && x.current // nothing is sealed
		if err != nil && !unused {
			return found(Problem, "Do what the message says; cairn serve does not start before.", "%v.", err)
		}
	}
	if !x.current {
		return skipped("The database cannot be used as it is: see database and migrations.")
	}
	plain, err := x.store.PlainValues(ctx)
	switch {
	case err != nil:
		return unreadable(err)
	case plain > 0:
		return found(Warning, seal, "%d secrets in the database are not sealed: "+
			"who has a copy of it reads secrets of authenticator apps, invites and the shared secret.", plain)
	}
	return ok("%s holds the data key, and only its owner can read it; all secrets in the database are sealed.", file)
}

// signingKey loads the keys for the checks that follow.
func signingKey(ctx context.Context, x *examination) Finding {
	const newKey = "Run cairn keys generate key.pem, write private-key-file: key.pem into cairn.yaml and restart cairn serve; docs/keys.md has the rest."
	if x.Settings.NoOIDC {
		return ok("No key is used because of --no-oidc: OpenID Connect is off.")
	}
	keys, err := config.LoadSigningKeys(x.Settings.PrivateKeyFile, x.Settings.AdditionalKeyFiles)
	switch {
	case err != nil:
		return found(Problem, "Do what the message says; cairn serve does not start before.", "%v.", err)
	case len(keys) == 0 && x.current:
		issued, err := x.store.IssuedRS256(ctx)
		if err != nil {
			return unreadable(err)
		}
		if issued {
			return found(Problem, "Name the file of the key in cairn.yaml as private-key-file; cairn serve does not start before.", "No key is set, and this installation has issued tokens that one has signed.")
		}
	}
	if len(keys) == 0 {
		return found(Advice, newKey, "There is no key: session cookies are HS256, whoever holds the shared secret can make them, and OpenID Connect is off.")
	}
	x.keys = keys
	public, _ := keys[0].Public().Key.(*rsa.PublicKey)
	return ok("%s holds the key %s of %d bits, and only its owner can read it.", x.Settings.PrivateKeyFile, keys[0].KeyID, public.N.BitLen())
}

// signer is what serve signs with on this machine. Both are right.
func signer(_ context.Context, x *examination) Finding {
	_, used := libcrypto.Choose(x.keys[0], x.Settings.Signer == "go")
	return ok("Tokens are signed with %s.", used)
}

// clientAlgorithms looks for clients and APIs that get no tokens, because a key was removed.
func clientAlgorithms(ctx context.Context, x *examination) Finding {
	clients, err := x.store.Clients(ctx)
	if err != nil {
		return unreadable(err)
	}
	var without []string
	for _, c := range provider.CheckKeys(clients, x.keys) {
		name := c.ID + " (" + c.IDTokenAlg + ")"
		if c.Profile != "" {
			name = c.ID + " (" + c.IDTokenAlg + ", profile " + c.Profile + ": RS256 is none of its algorithms)"
		}
		without = append(without, name)
	}
	apis, err := x.store.APIs(ctx)
	if err != nil {
		return unreadable(err)
	}
	for _, a := range provider.CheckAPIKeys(apis, x.keys) {
		without = append(without, a.URI+" ("+a.Algorithm+")")
	}
	if len(without) > 0 {
		return found(Problem, "Name a private key of that type in additional-key-file, or choose another algorithm: "+
			"cairn client update ID --id-token-alg RS256, cairn api update URI --alg RS256.",
			"No key signs what these clients and APIs ask for, and every sign-in there fails: %s.", strings.Join(without, ", "))
	}
	return ok("There is a key for what each client and API asks for.")
}

// unusedDays are how long an allowance is kept in mind that lets nobody in.
const unusedDays = 90

// allowedClients looks for descriptions that cannot be used, and for allowances that nobody uses.
func allowedClients(ctx context.Context, x *examination) Finding {
	all, err := x.store.Allowances(ctx)
	if err != nil {
		return unreadable(err)
	}
	clients, err := x.store.Clients(ctx)
	if err != nil {
		return unreadable(err)
	}
	const remove = "cairn client allow --remove URL"
	since := x.Now().AddDate(0, 0, -unusedDays)
	var unused []string
	for _, a := range all {
		if !x.Offline && !strings.HasSuffix(a.URL, "*") {
			if err := provider.CheckDocument(ctx, a.URL, x.Now, x.RootCAs); err != nil {
				return found(Warning, "Tell its owner; or end it with "+remove+".", "The client %s cannot sign anybody in. %v", a.URL, err)
			}
		}
		var ids []string
		for _, c := range clients {
			if own, _ := provider.AllowanceOf(all, c.ID); c.Document && own.URL == a.URL {
				ids = append(ids, c.ID)
			}
		}
		uses, err := x.store.ClientUses(ctx, ids)
		if err != nil {
			return unreadable(err)
		}
		last := a.CreatedAt
		for _, use := range uses {
			if use.LastAt.After(last) {
				last = use.LastAt
			}
		}
		if last.Before(since) {
			unused = append(unused, a.URL)
		}
	}
	if len(unused) > 0 {
		return found(Advice, "Run "+remove+" where it is no longer needed.",
			"Nobody has used what client allow lets in for %d days: %s.", unusedDays, strings.Join(unused, ", "))
	}
	return ok("%d descriptions or prefixes of them are allowed.", len(all))
}

// leastBits is what a secret has at least that was made by chance, by what its characters tell.
const leastBits = 100

// weakness says why a secret can be guessed, "" where nothing tells. It repeats no part of it.
func weakness(secret []byte) string {
	n := len(secret)
	if n < config.MinSecretBytes {
		return fmt.Sprintf("has %d bytes, and at least %d are needed", n, config.MinSecretBytes)
	}
	for period := 1; period <= n/2; period++ {
		if strings.HasPrefix(string(secret), string(secret[period:])) {
			return fmt.Sprintf("repeats itself after %d of its %d bytes", period, n)
		}
	}
	count, steps := map[byte]int{}, map[byte]int{}
	for i, b := range secret {
		count[b]++
		if i > 0 {
			steps[b-secret[i-1]]++
		}
	}
	bits := 0.0
	for _, c := range count {
		bits -= float64(c) * math.Log2(float64(c)/float64(n))
	}
	switch {
	case bits < leastBits:
		return fmt.Sprintf("has %d bytes of few different values", n)
	case steps[1]+steps[255] > n/2:
		return fmt.Sprintf("has %d bytes that count up or down", n)
	}
	return ""
}

// secrets are the stored shared secret and the one of the environment, with its source.
func (x *examination) secrets(ctx context.Context) (stored, given []byte, source string, err error) {
	if stored, err = x.store.Secret(ctx, account.SecretJWT); err != nil {
		return nil, nil, "", err
	}
	given, source, err = config.Secret(x.Lookup)
	return stored, given, source, err
}

func sharedSecret(ctx context.Context, x *examination) Finding {
	const do = "Make one with openssl rand -base64 48, set it as SERVICE_AUTH_JWT_SECRET here and in every application that has it, and restart all of them; better, leave it behind: docs/keys.md."
	stored, given, source, err := x.secrets(ctx)
	if err != nil {
		return found(Problem, "Do what the message says; cairn serve does not start before.", "%v.", err)
	}
	used := given
	if given == nil {
		used, source = stored, "the database"
	}
	if why := weakness(used); why != "" {
		return found(Problem, do, "The shared secret of %s %s: who guesses it makes session cookies.", source, why)
	}
	return ok("The shared secret of %s has %d bytes.", source, len(used))
}

func sharedSecretSource(ctx context.Context, x *examination) Finding {
	stored, given, source, err := x.secrets(ctx)
	switch {
	case err != nil:
		return skipped("The secret cannot be read: see shared-secret.")
	case given != nil && string(given) != string(stored):
		return found(Warning, "Give every application the secret of the environment, or unset it to use the stored one; cairn show-secret prints the stored one.", "%s is not the stored secret, and is used instead.", source)
	case given != nil:
		return ok("%s is the stored secret.", source)
	}
	return ok("The stored secret is used.")
}

const slowHash = 500 * time.Millisecond

// passwordHashing takes the better of three: another program may have had the processor.
func passwordHashing(ctx context.Context, x *examination) Finding {
	h, err := x.Hasher, error(nil)
	if h == nil {
		h, err = password.NewHasher()
	}
	took := time.Duration(math.MaxInt64)
	for range 3 {
		begin := time.Now()
		if err == nil {
			_, err = h.Hash(ctx, "the time of a hash")
		}
		took = min(took, time.Since(begin))
	}
	if err != nil {
		return found(Problem, "Install cairn again.", "A password cannot be hashed: %v.", err)
	}
	return hashing(took, availableMemory(), password.HashSlots())
}

// hashing judges the time of a hash, and the memory of so many at once; 0 is not known.
func hashing(took time.Duration, memory int64, slots int) Finding {
	says := fmt.Sprintf("A password hash takes %d ms, and %d at once take %s", took.Milliseconds(), slots,
		sizeText(int64(slots)*password.HashMemory))
	switch {
	case took > slowHash:
		return found(Warning, "Give the service a faster processor, or more of this one: people wait so long at each sign-in.", "%s.", says)
	case memory > 0 && memory < int64(slots)*password.HashMemory:
		return found(Warning, "Give the service more memory, or fewer processors with GOMAXPROCS.", "%s, of %s that are available.", says, sizeText(memory))
	}
	return ok("%s.", says)
}

// availableMemory is what Linux has available, or the limit of the control group where that is less; 0 is not known.
func availableMemory() (n int64) {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemAvailable:" {
			n, _ = strconv.ParseInt(fields[1], 10, 64)
			n <<= 10
		}
	}
	text, _ = os.ReadFile("/sys/fs/cgroup/memory.max")
	if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && (n == 0 || limit < n) {
		n = limit
	}
	return n
}

func mailServer(ctx context.Context, x *examination) Finding {
	if x.checked.Mail == nil || x.Mail == nil {
		return skipped("No mail server is set: no mails are sent.")
	}
	const do = "Correct --smtp-url (SERVICE_SMTP_URL) or the password; cairn mail test ADDRESS sends one and says what to do."
	sender, err := x.Mail(x.checked)
	if err == nil {
		defer sender.Close()
		err = sender.Check(ctx)
	}
	var failure *mail.Failure
	switch {
	case errors.As(err, &failure):
		return found(Problem, do, "The mail server cannot be used: %v.", err)
	case err != nil:
		return found(Problem, do, "%v.", err)
	}
	says := x.checked.Mail.Address() + " takes connections and the user."
	if !x.current {
		return ok("%s", says)
	}
	f := judged("mail-server", says)(ctx, x)
	if state, err := x.store.MailState(ctx); err == nil && f.Level == Warning {
		f.Found = strings.TrimSuffix(f.Found, ".") + ": " + state.Failure + "."
	}
	return f
}
