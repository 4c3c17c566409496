package config

import (
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// passwordVariable has no flag, because every user of the machine can see the value of a flag.
const passwordVariable = "SERVICE_SMTP_PASSWORD"

// Mail is the mail server (SMTP submission, RFC 6409) for the mails of the service, and their
// sender.
type Mail struct {
	Host       string // a name or an IP address
	Port       string
	TLS        bool   // from the first byte (RFC 8314); else RequireTLS decides
	RequireTLS bool   // nothing is sent before STARTTLS; false on loopback alone
	User       string // empty: no authentication
	From       mail.Address

	passwordFile string
}

// Address returns host:port.
func (m Mail) Address() string { return net.JoinHostPort(m.Host, m.Port) }

// checkMail never repeats the URL: it may contain a password, however it is spelled.
func checkMail(c *Checked, s Settings) error {
	const flag, remedy = "smtp-url",
		"write smtps://user@smtp.example.org:465, or smtp://user@smtp.example.org:587 for STARTTLS"
	if s.SMTPURL == "" {
		for _, other := range [][2]string{{"mail-from", s.MailFrom}, {"smtp-password-file", s.SMTPPasswordFile}} {
			if other[1] != "" {
				return refuse(other[0], "give --smtp-url too, or leave both out",
					"is set while --smtp-url (SERVICE_SMTP_URL) is not")
			}
		}
		return nil
	}
	u, err := url.Parse(s.SMTPURL)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Opaque != "" || u.Host == "" {
		return refuse(flag, remedy, "is not an smtp or smtps address")
	}
	if _, given := u.User.Password(); given {
		return refuse(flag,
			"write the user alone, and the password in "+passwordVariable+" or in a file that --smtp-password-file "+
				"names", "holds a password, which logs and other users of the machine may show")
	}
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return refuse(flag, remedy, "has more than scheme, user, host and port")
	}
	m := Mail{Host: strings.ToLower(u.Hostname()), Port: u.Port(), TLS: u.Scheme == "smtps", User: u.User.Username(),
		passwordFile: s.SMTPPasswordFile}
	if a, err := netip.ParseAddr(m.Host); (err != nil || a.Zone() != "") && !isHostname(m.Host) {
		return refuse(flag, remedy, "has a host that is neither a name nor an IP address")
	}
	switch n, err := strconv.ParseUint(m.Port, 10, 16); {
	case m.Port == "" && m.TLS:
		m.Port = "465"
	case m.Port == "":
		m.Port = "587"
	case err != nil || n == 0:
		return refuse(flag, remedy, "has a port that is not between 1 and 65535")
	}
	if strings.ContainsFunc(m.User, unicode.IsControl) {
		return refuse(flag, remedy, "has a control character in the user")
	}
	m.RequireTLS = !isLoopback(m.Host)
	if m.From, err = mailFrom(s.MailFrom); err != nil {
		return err
	}
	c.Mail = &m
	return nil
}

func mailFrom(s string) (mail.Address, error) {
	const flag, remedy = "mail-from", `write an address, as club@example.org, or "The Club <club@example.org>"`
	if s == "" {
		return mail.Address{}, refuse(flag, remedy, "is missing while --smtp-url is set")
	}
	a, err := mail.ParseAddress(s)
	if err != nil {
		return mail.Address{}, refuse(flag, remedy, "%q is not an address", s)
	}
	unfit := func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`<>"\`, c) }
	if len(a.Name) > 200 || strings.ContainsFunc(a.Name, unicode.IsControl) || strings.ContainsFunc(a.Address, unfit) {
		return mail.Address{}, refuse(flag, remedy, "%q is too long or has characters that mail servers refuse", s)
	}
	return *a, nil
}

// Password returns the password of the user, of SERVICE_SMTP_PASSWORD or of the file, and "" without a user. lookup is
// [Environment.Lookup] or has the shape of os.LookupEnv. An error never holds the password.
func (m Mail) Password(lookup func(string) (string, bool)) (string, error) {
	value, _ := lookup(passwordVariable)
	name := passwordVariable
	switch {
	case value != "" && m.passwordFile != "":
		return "", refuse(name, "unset one of them",
			"is set together with --smtp-password-file (SERVICE_SMTP_PASSWORD_FILE)")
	case m.passwordFile != "":
		name = "smtp-password-file"
		text, err := secretFromFile(name, m.passwordFile)
		if err != nil {
			return "", err
		}
		value = string(text)
	}
	switch {
	case m.User != "" && value == "":
		return "", refuse(name,
			"set the password of the user that --smtp-url (SERVICE_SMTP_URL) names, or leave the user out",
			"holds no password")
	case m.User == "" && value != "":
		return "", refuse(name, "write the user in --smtp-url (SERVICE_SMTP_URL), as smtps://user@"+m.Host,
			"is set, and there is no user")
	}
	return value, nil
}
