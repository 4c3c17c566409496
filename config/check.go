package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
)

// Checked are the settings after [Settings.Check]: typed, consistent and ready to use.
type Checked struct {
	Listen       string   // host:port; the host may be empty (every address), the port 0 (any)
	Issuer       *url.URL // IssuerString parsed; its path is empty or begins, and never ends, with a slash
	IssuerString string   // exactly as given: what tokens and clients compare
	// A file path or a postgres:// URL, which may hold a password: log DatabaseLabel instead.
	Database        string
	DataKeyFile     string           // empty: there is none
	HTTPS           bool             // the issuer's scheme
	CookieDomain    string           // empty: the cookie belongs to one host
	CookieName      string           // the whole name, with its __Host- or __Secure- prefix
	LoginCookieName string           // the host-only second cookie; empty without a cookie domain
	PasskeyHost     string           // empty: the issuer's host
	PasskeyOrigins  []string         // as a browser writes Origin
	Unbound         bool             // device-binding is off
	StatusTTL       time.Duration    // whole seconds
	RequirePushed   bool             // require_pushed_authorization_requests
	ShutdownDelay   time.Duration    // 0: none
	TrustedProxies  []netip.Prefix   // masked and unmapped: compare with netip.Addr.Unmap
	AllowedOrigins  []string         // as a browser writes Origin
	RateLimits      map[string]Limit // every name of DefaultRateLimits
	LogLevel        slog.Level
	Mail            *Mail  // nil: no mails are sent
	MetricsListen   string // host:port; empty: nothing is counted
	Backup          Backup
	LogFormat       string    // "text", "json", or empty: text on a terminal, else json
	TLS             *TLSFiles // nil: plain http
}

// Backup configures the backups of the service.
type Backup struct {
	Dir       string // empty: no backups
	Every     time.Duration
	Keep      int
	Recipient string // of age; empty: backups are not encrypted
	Command   string // run after each backup; empty: none
}

// Check converts the settings to typed values. It reads no file, and only looks for a data key
// beside the signing key and the database. The error is one line that names the first wrong
// setting, its flag and variable, and the remedy.
//
// It is not called Validate, because kong would then call it while parsing every command, also
// those without settings.
func (s Settings) Check() (Checked, error) {
	c := Checked{RequirePushed: s.RequirePushedRequests}
	for _, check := range []func(*Checked, Settings) error{
		checkListen, checkIssuer, checkDatabase, checkDataKey, checkKeys, checkCookieDomain, checkPasskeys,
		checkCookieName, checkStatusTTL,
		checkShutdownDelay,
		checkTLS, checkProxies, checkOrigins, checkRateLimits, checkMail, checkMetrics, checkBackup, checkLog,
	} {
		if err := check(&c, s); err != nil {
			return Checked{}, err
		}
	}
	return c, nil
}

// Warnings returns one line for each valid choice that the operator may not have intended.
func (c Checked) Warnings() []string {
	var w []string
	warn := func(format string, args ...any) { w = append(w, fmt.Sprintf(format, args...)) }
	issuer, proxied := c.Issuer.Hostname(), len(c.TrustedProxies) > 0
	if _, err := netip.ParseAddr(issuer); err == nil {
		warn("the issuer is an IP address: passkeys need a name, use localhost or a domain in --issuer")
	}
	if c.HTTPS && c.TLS == nil && !proxied {
		warn("the issuer is https, and neither TLS files nor a trusted proxy is set: behind a reverse proxy every " +
			"visitor counts as one address, name the proxy with --trusted-proxy")
		return w
	}
	if proxied { // then the two addresses may differ
		return w
	}
	host, port, _ := net.SplitHostPort(c.Listen)
	implied := map[string]string{"http": "80", "https": "443"}[c.Issuer.Scheme]
	if isLoopback(issuer) && port != "0" && port != cmp.Or(c.Issuer.Port(), implied) {
		warn("the issuer %s names another port than --listen %s: browsers and applications do not reach this "+
			"service under it, write %s://%s in --issuer",
			c.IssuerString, c.Listen, c.Issuer.Scheme, net.JoinHostPort(issuer, port)+c.Issuer.Path)
	}
	switch {
	case isLoopback(issuer) && !isLoopback(host):
		warn("--listen %s is open to other machines, and the issuer %s sends their browsers to themselves: write "+
			"the address people use in --issuer, or %s in --listen",
			c.Listen, c.IssuerString, net.JoinHostPort("127.0.0.1", port))
	case !isLoopback(issuer) && isLoopback(host) && c.TLS != nil:
		warn("only this machine reaches --listen %s, and the issuer %s is for others too: write :%s in --listen, or "+
			"name the proxy with --trusted-proxy",
			c.Listen, c.IssuerString, port)
	}
	return w
}

func checkListen(c *Checked, s Settings) error {
	c.Listen = s.Listen
	return checkHostPort("listen", s.Listen, "write host:port, as 127.0.0.1:4040, or :4040 for every address")
}

func checkMetrics(c *Checked, s Settings) error {
	const remedy = "write host:port, as 127.0.0.1:9464"
	switch {
	case s.MetricsListen == "" && s.Pprof:
		return refuse("pprof", "set --metrics-listen (SERVICE_METRICS_LISTEN) too", "there is no listener for it")
	case s.MetricsListen == "":
		return nil
	case s.MetricsListen == s.Listen && !strings.HasSuffix(s.Listen, ":0"):
		return refuse("metrics-listen", "choose another port: what it serves is not for everyone",
			"%s is the address of --listen", s.Listen)
	}
	c.MetricsListen = s.MetricsListen
	return checkHostPort("metrics-listen", s.MetricsListen, remedy)
}

func checkHostPort(flag, address, remedy string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return refuse(flag, remedy, "%q is not host:port", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return refuse(flag, remedy, "%q is not a port between 0 and 65535", port)
	}
	if _, err := netip.ParseAddr(host); host != "" && err != nil && !isHostname(strings.ToLower(host)) {
		return refuse(flag, remedy, "%q is neither an IP address nor a host name", host)
	}
	return nil
}

// checkStatusTTL limits the time in both directions: applications must not ask all the time, and a
// thief must not continue for hours.
func checkStatusTTL(c *Checked, s Settings) error {
	d, err := wholeSeconds(s.StatusTTL, time.Hour)
	if err != nil {
		return refuse("status-ttl", "write 1s to 1h in whole seconds, as 60s", "%w", err)
	}
	c.StatusTTL = d
	return nil
}

// checkShutdownDelay keeps the delay below the timeout of service managers: systemd kills after 90
// seconds.
func checkShutdownDelay(c *Checked, s Settings) error {
	d, err := time.ParseDuration(s.ShutdownDelay)
	if err != nil || d < 0 || d > maxShutdownDelay {
		return refuse("shutdown-delay", "write a time such as 5s", "%q is not a duration between 0s and %gs",
			s.ShutdownDelay, maxShutdownDelay.Seconds())
	}
	c.ShutdownDelay = d
	return nil
}

const maxShutdownDelay = time.Minute

// wholeSeconds parses a duration from one second to most.
func wholeSeconds(s string, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > most || d%time.Second != 0 {
		return 0, fmt.Errorf("%q is not a duration between 1s and %gh in whole seconds", s, most.Hours())
	}
	return d, nil
}

// checkProxies accepts networks and single addresses. It refuses a network with bits beyond its
// mask, which has a typing error in one half, and the network of all addresses, because then every
// visitor could choose their own address.
func checkProxies(c *Checked, s Settings) error {
	const flag, remedy = "trusted-proxy", "write the proxies' networks, as 10.0.0.0/8 or 192.0.2.7"
	for _, s := range trimmed(s.TrustedProxies) {
		p, err := netip.ParsePrefix(s)
		if a, addrErr := netip.ParseAddr(s); addrErr == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || p.Addr().Is4In6() && p.Bits() < 96 {
			return refuse(flag, remedy, "%q is neither a network nor an IP address", s)
		}
		if p.Addr().Is4In6() {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if p.Masked() != p {
			return refuse(flag, "write "+p.Masked().String(), "%q has bits set beyond its mask", s)
		}
		if p.Bits() == 0 {
			return refuse(flag, "name only the proxies' own addresses",
				"%q lets every visitor choose the address he is counted as", s)
		}
		c.TrustedProxies = append(c.TrustedProxies, p)
	}
	return nil
}

// leastBackupEvery leaves time for a backup and its command.
const leastBackupEvery = time.Hour

func checkBackup(c *Checked, s Settings) error {
	every, err := wholeSeconds(s.BackupEvery, 31*24*time.Hour)
	if err != nil {
		return refuse("backup-every", "write 1h to 744h in whole seconds, as 24h", "%w", err)
	}
	if every < leastBackupEvery {
		return refuse("backup-every", "write 1h to 744h in whole seconds, as 24h",
			"%s is less than an hour", s.BackupEvery)
	}
	keep, err := strconv.Atoi(s.BackupKeep)
	if err != nil || keep < 1 || keep > 10000 {
		return refuse("backup-keep", "write a number from 1 to 10000, as 14",
			"%q is not a number of files to keep", s.BackupKeep)
	}
	if s.BackupRecipient != "" {
		if _, err := age.ParseX25519Recipient(s.BackupRecipient); err != nil { // the error may repeat a secret key
			return refuse("backup-recipient", "write the line age1... that cairn keys generate --type age prints",
				"this is not a recipient of age")
		}
	}
	if d := Defaults(); s.BackupDir == "" { // the recipient and the command are those of cairn backup too
		for flag, given := range map[string]bool{
			"backup-every": s.BackupEvery != d.BackupEvery, "backup-keep": s.BackupKeep != d.BackupKeep,
		} {
			if given {
				return refuse(flag, "give --backup-dir too, or leave both out",
					"is set while --backup-dir (SERVICE_BACKUP_DIR) is not")
			}
		}
	}
	c.Backup = Backup{Dir: s.BackupDir, Every: every, Keep: keep, Recipient: s.BackupRecipient,
		Command: s.BackupCommand}
	return nil
}

func checkLog(c *Checked, s Settings) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "": slog.LevelInfo, "info": slog.LevelInfo,
		"warn": slog.LevelWarn, "error": slog.LevelError}
	level, known := levels[s.LogLevel]
	if !known {
		return refuse("log-level", "write debug, info, warn or error", "%q is not a level", s.LogLevel)
	}
	if s.LogFormat != "" && s.LogFormat != "text" && s.LogFormat != "json" {
		return refuse("log-format", "write text or json, or leave it out", "%q is not a format", s.LogFormat)
	}
	c.LogLevel, c.LogFormat = level, s.LogFormat
	return nil
}

// trimmed removes blanks around the entries of a list, and empty entries.
func trimmed(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}
