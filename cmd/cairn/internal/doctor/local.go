package doctor

import (
	"bytes"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/cmd/cairn/internal/libcrypto"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
)

// settings checks the settings, and fills in what all other checks need.
func settings(x *examination) Finding {
	var err error
	if x.checked, err = x.Settings.Check(); err != nil {
		const do = "Correct it in cairn.yaml, the environment or the flags; cairn serve does not start with it."
		return found(Problem, do, "%v.", err)
	}
	changed := x.Settings.Changed()
	if len(changed) == 0 {
		return ok("All settings have their defaults.")
	}
	return ok("Settings other than the defaults: %s.", strings.Join(changed, ", "))
}

// settingsConflicts also reads the files that no other check reads: a service that runs may not start again.
func settingsConflicts(_ context.Context, x *examination) Finding {
	if file := x.Settings.Apply; file != "" && x.CheckApply != nil {
		if err := x.CheckApply(file); err != nil {
			return found(Problem, doAsTold, "--apply (SERVICE_APPLY): %v.", err)
		}
	}
	if x.checked.TLS != nil {
		if _, err := x.checked.TLS.Load(); err != nil {
			return found(Problem, doAsTold, "%v.", err)
		}
	}
	if w := x.checked.Warnings(); len(w) > 0 {
		return found(Warning, "Change it in cairn.yaml or the environment and restart cairn serve.",
			"%s.", strings.Join(w, "; "))
	}
	return ok("The settings fit together.")
}

// dataKey checks the file of the data key, and that all secrets are sealed.
func dataKey(ctx context.Context, x *examination) Finding {
	const seal = "Run cairn keys seal, with every instance on this version; docs/keys.md has the rest."
	file := x.checked.DataKeyFile
	if file != "" {
		_, err := config.LoadDataKey(file)
		unused := errors.Is(err, os.ErrNotExist) && x.current // nothing is sealed
		if err != nil && !unused {
			return found(Problem, doAsTold, "%v.", err)
		}
	}
	if !x.current {
		return skipped("The database cannot be used in its present state: see database and migrations.")
	}
	plain, err := x.store.PlainValues(ctx)
	switch {
	case err != nil:
		return unreadable(err)
	case plain > 0:
		return found(Warning, seal, "%d secrets in the database are not sealed: "+
			"a copy of it gives away the secrets of authenticator apps, invites and the shared secret.", plain)
	}
	return ok("%s holds the data key, and only its owner can read it; all secrets in the database are sealed.", file)
}

func signingKey(ctx context.Context, x *examination) Finding {
	const newKey = "Run cairn keys generate key.pem, write private-key-file: key.pem into cairn.yaml " +
		"and restart cairn serve; docs/keys.md has the rest."
	if x.Settings.NoOIDC {
		return ok("No key is used because of --no-oidc: OpenID Connect is off.")
	}
	switch {
	case x.keysErr != nil:
		return found(Problem, doAsTold, "%v.", x.keysErr)
	case len(x.keys) == 0 && x.current:
		issued, err := x.store.IssuedRS256(ctx)
		if err != nil {
			return unreadable(err)
		}
		if issued {
			const do = "Name the file of the key in cairn.yaml as private-key-file; " +
				"until then cairn serve does not start."
			return found(Problem, do, "No key is set, and this installation has issued tokens signed with one.")
		}
	}
	if len(x.keys) == 0 {
		return found(Advice, newKey, "There is no key: session cookies are HS256, "+
			"whoever holds the shared secret can make them, and OpenID Connect is off.")
	}
	public, _ := x.keys[0].Public().Key.(*rsa.PublicKey)
	return ok("%s holds the key %s of %d bits, and only its owner can read it.",
		x.Settings.PrivateKeyFile, x.keys[0].KeyID, public.N.BitLen())
}

// signer names the library that serve signs with on this machine. Either is fine.
func signer(_ context.Context, x *examination) Finding {
	_, used := libcrypto.Choose(x.keys[0], x.Settings.Signer == "go")
	return ok("Tokens are signed with %s.", used)
}

// passkeyHost looks for passkeys that were made for an earlier host of the issuer.
func passkeyHost(ctx context.Context, x *examination) Finding {
	elsewhere, err := x.store.PasskeysElsewhere(ctx, account.PasskeyHosts(x.checked.IssuerString))
	switch {
	case err != nil:
		return unreadable(err)
	case elsewhere.Passkeys > 0:
		return found(Warning, "Go back to that host, or tell these members to sign in with their password and a "+
			"recovery code and to add a passkey; docs/passkeys.md says how the next move keeps them.", "%s.", elsewhere)
	}
	return ok("All passkeys belong to the host of the issuer or to a parent domain of it.")
}

// clientAlgorithms looks for clients and APIs that get no tokens because their key was removed.
func clientAlgorithms(ctx context.Context, x *examination) Finding {
	clients, err := x.store.Clients(ctx)
	if err != nil {
		return unreadable(err)
	}
	var without []string
	for _, c := range provider.CheckKeys(clients, x.keys) {
		name := c.ID + " (" + c.IDTokenAlg + ")"
		if c.Profile != "" {
			name = c.ID + " (" + c.IDTokenAlg + ", profile " + c.Profile + ": it does not allow RS256)"
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
			"No key has the algorithm that these clients and APIs need, and every sign-in there fails: %s.",
			strings.Join(without, ", "))
	}
	return ok("There is a key for the algorithm of each client and API.")
}

// ownClaims looks for rules of clients and APIs by which members could be taken for somebody else.
func ownClaims(ctx context.Context, x *examination) Finding {
	clients, err := x.store.Clients(ctx)
	if err != nil {
		return unreadable(err)
	}
	apis, err := x.store.APIs(ctx)
	if err != nil {
		return unreadable(err)
	}
	var risky []string
	for _, c := range clients {
		for _, w := range c.ClaimWarnings() {
			risky = append(risky, "cairn client update "+c.ID+" "+w)
		}
	}
	for _, a := range apis {
		for _, w := range a.Warnings() {
			risky = append(risky, "cairn api update "+a.URI+" "+w)
		}
	}
	if len(risky) > 0 {
		return found(Warning, "Change the rule, or see that the application does not know people by that claim.",
			"%s.", strings.Join(risky, "; "))
	}
	return ok("No claim by which applications know people has a value that members choose.")
}

// unusedDays is the number of days after which an allowance counts as unused.
const unusedDays = 90

// allowedClients looks for client descriptions that are invalid, and for allowances that nobody uses.
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
				return found(Warning, "Tell its owner; or end it with "+remove+".",
					"The client %s cannot sign anybody in. %v", a.URL, err)
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
			"Nobody has used these allowed clients for %d days: %s.", unusedDays, strings.Join(unused, ", "))
	}
	return ok("%d descriptions or prefixes of them are allowed.", len(all))
}

// lateSignOut is how long a notice of a sign-out may wait: an application may restart.
const lateSignOut = 10 * time.Minute

// signOuts looks for notices that applications do not take at their back-channel logout URI.
func signOuts(ctx context.Context, x *examination) Finding {
	waiting, oldest, err := x.store.LogoutState(ctx)
	if err != nil {
		return unreadable(err)
	}
	if waiting > 0 && x.Now().Sub(oldest) > lateSignOut {
		return found(Warning, "Find the application in the log (logout not delivered, with client_id and the "+
			"error), and correct its address with cairn client update ID --backchannel-logout-uri URI; "+
			"--allow-private-backchannel for a private one.",
			"%d sign-outs wait since %s: an application does not take them, and people stay signed in there.",
			waiting, oldest.UTC().Format(time.RFC3339))
	}
	return ok("No sign-out waits for an application.")
}

// leastValues is how many different bytes a random secret has at least.
const leastValues = 8

// weakness returns why a secret can be guessed, or "". The text has no part of the secret.
func weakness(secret []byte) string {
	if len(secret) < config.MinSecretBytes {
		return fmt.Sprintf("has %d bytes, and at least %d are needed", len(secret), config.MinSecretBytes)
	}
	for period := 1; period <= len(secret)/2; period++ {
		if bytes.HasPrefix(secret, secret[period:]) {
			return fmt.Sprintf("repeats after %d of its %d bytes", period, len(secret))
		}
	}
	values := slices.Clone(secret)
	slices.Sort(values)
	if n := len(slices.Compact(values)); n < leastValues {
		return fmt.Sprintf("has few different bytes (%d)", n)
	}
	return ""
}

// secrets returns the stored shared secret and the environment's, with the source of the latter.
func (x *examination) secrets(ctx context.Context) (stored, fromEnv []byte, source string, err error) {
	if stored, err = x.store.Secret(ctx, account.SecretJWT); err != nil {
		return nil, nil, "", err
	}
	fromEnv, source, err = config.Secret(x.Lookup)
	return stored, fromEnv, source, err
}

func sharedSecret(ctx context.Context, x *examination) Finding {
	do := "Make one with openssl rand -base64 48, set it as SERVICE_AUTH_JWT_SECRET here and in every " +
		"application that has it, and restart all of them; better, stop using it: docs/keys.md."
	stored, fromEnv, source, err := x.secrets(ctx)
	if err != nil {
		return found(Problem, doAsTold, "%v.", err)
	}
	used := fromEnv
	switch {
	case fromEnv == nil:
		used, source = stored, "the database"
	case weakness(stored) == "":
		do = "Unset it here, give every application that has it the stored secret, which cairn show-secret prints, " +
			"and restart all of them; better, stop using it: docs/keys.md."
	}
	if why := weakness(used); why != "" {
		return found(Problem, do, "The shared secret of %s %s: whoever guesses it can make session cookies.",
			source, why)
	}
	return ok("The shared secret of %s has %d bytes.", source, len(used))
}

func sharedSecretSource(ctx context.Context, x *examination) Finding {
	stored, fromEnv, source, err := x.secrets(ctx)
	switch {
	case err != nil:
		return skipped("The secret cannot be read: see shared-secret.")
	case fromEnv != nil && string(fromEnv) != string(stored):
		return found(Warning, "Give every application the secret of the environment, "+
			"or unset it to use the stored one, which cairn show-secret prints.",
			"%s is not the stored secret, and is used instead.", source)
	case fromEnv != nil:
		return ok("%s is the stored secret.", source)
	}
	return ok("The stored secret is used.")
}

const slowHash = 500 * time.Millisecond

// passwordHashing takes the best of three measurements: another program may use the processor.
func passwordHashing(ctx context.Context, x *examination) Finding {
	var err error
	h := x.Hasher
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
	return hashing(took, availableMemory(x.MemoryLimit), password.HashSlots())
}

// hashing judges the time of a hash, and the available memory for so many at once; 0 means unknown.
func hashing(took time.Duration, memory int64, slots int) Finding {
	text := fmt.Sprintf("A password hash takes %d ms, and %d at once take %s", took.Milliseconds(), slots,
		sizeText(int64(slots)*password.HashMemory))
	switch {
	case took > slowHash:
		const do = "Give the service a faster processor, or more of this one: people wait this long at each sign-in."
		return found(Warning, do, "%s.", text)
	case memory > 0 && memory < int64(slots)*password.HashMemory:
		const do = "Give the service more memory, or fewer processors with GOMAXPROCS."
		return found(Warning, do, "%s, of %s available.", text, sizeText(memory))
	}
	return ok("%s.", text)
}

// availableMemory returns the system's available memory in bytes, or the limit of the control
// groups if that is lower. 0 means unknown.
func availableMemory(limit int64) (n int64) {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemAvailable:" {
			n, _ = strconv.ParseInt(fields[1], 10, 64)
			n <<= 10
		}
	}
	if limit > 0 && (n == 0 || limit < n) {
		return limit
	}
	return n
}

// withoutMail looks for what needs mails.
func withoutMail(ctx context.Context, x *examination) Finding {
	if !x.current {
		return skipped("No mail server is set: no mails are sent.")
	}
	s, err := roster.NewAdministration(x.store, x.Now).Settings(ctx)
	switch {
	case err != nil:
		return unreadable(err)
	case s.Registration == account.RegistrationRequest:
		return found(Warning, "Set a mail server (docs/mail.md), or run cairn settings set registration invite.",
			"People may ask to join by the settings, and cannot: that needs mails, and no mail server is set.")
	}
	return skipped("No mail server is set: no mails are sent.")
}

func mailServer(ctx context.Context, x *examination) Finding {
	if x.checked.Mail == nil || x.Mail == nil {
		return withoutMail(ctx, x)
	}
	sender, err := x.Mail(x.checked)
	if err == nil {
		defer sender.Close()
		err = sender.Check(ctx)
	}
	var failure *mail.Failure
	switch {
	case errors.As(err, &failure):
		return found(Problem, "To do: "+MailRemedy(failure)+". cairn mail test ADDRESS sends a mail.",
			"The mail server cannot be used: %v.", err)
	case err != nil:
		return found(Problem, doAsTold, "%v.", err)
	}
	text := x.checked.Mail.Address() + " accepts connections, the user and the sender."
	if !x.current {
		return ok("%s", text)
	}
	f := judged("mail-server", text)(ctx, x)
	if state, err := x.store.MailState(ctx); err == nil && f.Level == Warning {
		f.Found = strings.TrimSuffix(f.Found, ".") + ": " + state.Failure + "."
	}
	return f
}

// MailRemedy returns what the operator should do about a failure.
func MailRemedy(f *mail.Failure) string {
	switch f.Step {
	case mail.StepConnect:
		return "check host and port in --smtp-url (SERVICE_SMTP_URL), and that this machine may connect to them"
	case mail.StepGreeting:
		return "check the port in --smtp-url (SERVICE_SMTP_URL): smtps for port 465, smtp for port 587; if the " +
			"server answers 421, it is busy: try again in a few minutes"
	case mail.StepTLS:
		return "check that --smtp-url (SERVICE_SMTP_URL) has the name in the server's certificate, " +
			"and smtps for port 465, smtp for port 587; a server that offers no TLS there gets no mail"
	case mail.StepAuthentication:
		return "check the user in --smtp-url (SERVICE_SMTP_URL) and SERVICE_SMTP_PASSWORD or the file; " +
			"some providers require an app password"
	case mail.StepSender:
		return "check that the server lets the user send from --mail-from (SERVICE_MAIL_FROM)"
	case mail.StepRecipient, mail.StepMessage, mail.StepForm:
		if f.Refused {
			return "try another address, or ask the operator of the mail server"
		}
		return "try again in a few minutes, as the service does automatically"
	}
	return "try again, or ask the operator of the mail server"
}
