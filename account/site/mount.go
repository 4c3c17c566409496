package site

import (
	"net/http"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/gorilla/mux"
)

// Mount registers the account endpoints (JSON and pages) on the router of the base path. The first
// matching path wins.
func (s *Site) Mount(m *mux.Router) {
	handle := func(path string, methods web.Methods) { s.Handle(m, path, methods) }
	s.mountAPI(handle)
	s.mountPages(handle)
	handle(RegisterDevicePath, web.Methods{"POST": s.Do(s.registerDevice)})
	handle(RefreshDevicePath, web.Methods{"POST": s.Do(s.refreshDevice)})
	handle("/logo/{hash}.png", web.Methods{"GET": s.Do(s.serveLogo)})
	handle("/picture/{hash}.jpg", web.Methods{"GET": s.Do(s.serveUserPicture)})
	handle("/oauth2/status/{list}", web.Methods{"GET": s.StatusLists.ServeHTTP})
}

func (s *Site) mountAPI(handle func(path string, methods web.Methods)) {
	signedIn := func(h web.Handler) http.HandlerFunc { return s.RequireSession(s.Do(h)) }

	handle("/api/auth/login", web.Methods{"POST": s.Do(web.Reading(s.apiLogin))})
	handle("/api/auth/confirm", web.Methods{"POST": signedIn(web.Reading(s.apiConfirm))})
	handle("/api/auth/passkey/begin", web.Methods{"POST": s.Do(s.apiPasskeyBegin)})
	handle("/api/auth/passkey/finish", web.Methods{"POST": s.Do(web.Reading(s.apiPasskeyFinish))})
	handle("/api/auth/logout", web.Methods{"POST": s.Do(s.apiLogout)})
	handle("/api/auth/reset-password", web.Methods{"POST": s.Do(web.Reading(s.apiResetPassword))})
	handle("/api/auth/reset-password/factors", web.Methods{"POST": s.Do(web.Reading(s.apiResetFactors))})
	handle("/api/auth/forgot-password", web.Methods{"POST": s.Do(web.Reading(s.apiForgotPassword))})
	handle("/api/verify", web.Methods{"GET": s.Do(s.apiVerify)})
	handle("/api/auth/recover", web.Methods{"POST": s.Do(web.Reading(s.apiRecover))})
	handle("/api/auth/reset-password/passkey/begin", web.Methods{"POST": s.Do(web.Reading(s.apiBeginWelcome))})
	handle("/api/register/passkey/begin", web.Methods{"POST": s.Do(web.Reading(s.apiBeginRegister))})
	handle("/api/join", web.Methods{"POST": s.Do(web.Reading(s.apiJoin))})
	handle("/api/register/address", web.Methods{"POST": s.Do(web.Reading(s.apiRegisterAddress))})
	handle("/api/register", web.Methods{"POST": s.Do(web.Reading(s.apiRegister))})
	handle("/api/me", web.Methods{
		"GET": signedIn(s.apiMe), "PATCH": signedIn(web.Reading(s.apiPatchMe)),
		"DELETE": signedIn(web.Reading(s.apiDeleteMe)),
	})
	handle("/api/me/password", web.Methods{
		"PUT": signedIn(web.Reading(s.apiPutPassword)), "DELETE": signedIn(s.apiRemovePassword),
	})
	handle("/api/me/email/verify", web.Methods{"POST": signedIn(web.Reading(s.apiVerifyEmail))})
	handle("/api/me/email/send-verification", web.Methods{"POST": signedIn(noContent(s.sendVerification))})
	handle("/api/me/email/pending", web.Methods{"DELETE": signedIn(noContent(s.cancelEmail))})
	handle("/api/me/prefs", web.Methods{
		"GET": signedIn(s.apiPreferences), "PUT": signedIn(web.Reading(s.apiPutPreferences)),
	})
	handle("/api/me/sessions", web.Methods{"GET": signedIn(s.apiSessions)})
	handle("/api/me/sessions/end-others", web.Methods{"POST": signedIn(s.apiEndOthers)})
	handle("/api/me/sessions/{id}", web.Methods{"DELETE": signedIn(noContent(s.endOwnSession))})
	handle("/api/me/apps", web.Methods{"GET": signedIn(s.apiApps)})
	// An id may be a URL.
	handle("/api/me/apps/{client_id:(?s:.+)}", web.Methods{"DELETE": signedIn(noContent(s.removeApp))})
	handle("/api/me/factors", web.Methods{"GET": signedIn(s.apiFactors)})
	handle("/api/me/totp", web.Methods{
		"POST": signedIn(web.Empty(s.apiBeginTOTP)), "DELETE": signedIn(keepingAPI(s.removeTOTP)),
	})
	handle("/api/me/totp/confirm", web.Methods{"POST": signedIn(web.Reading(s.apiConfirmTOTP))})
	handle("/api/me/recovery-codes", web.Methods{"POST": signedIn(web.Empty(s.apiRecoveryCodes))})
	handle("/api/me/second-step", web.Methods{"PUT": signedIn(web.Reading(s.apiSecondStep))})
	// POST is for programs that do not want an effect of GET.
	handle("/api/me/export", web.Methods{
		"GET": signedIn(web.OwnSite(s.export)), "POST": signedIn(web.Empty(s.export)),
	})
	handle("/api/me/passkeys", web.Methods{
		"GET": signedIn(s.apiPasskeys), "POST": signedIn(web.Reading(s.apiAddPasskey)),
	})
	handle("/api/me/passkeys/begin", web.Methods{"POST": signedIn(s.apiBeginAddPasskey)})
	handle("/api/me/passkeys/{id}", web.Methods{
		"PATCH": signedIn(web.Reading(s.apiRenamePasskey)), "DELETE": signedIn(keepingAPI(s.removePasskey)),
	})
	handle("/api/invites", web.Methods{"GET": signedIn(s.apiInvites), "POST": signedIn(s.apiCreateInvite)})
	handle("/api/invites/{code}", web.Methods{"DELETE": signedIn(noContent(s.deleteInvite))})
}

func (s *Site) mountPages(handle func(path string, methods web.Methods)) {
	page := func(h web.Handler) http.HandlerFunc { return s.requirePage(s.Do(s.Form(h))) }
	form := func(notice string, do operation) http.HandlerFunc { return page(s.accountForm(notice, do)) }

	handle("/login/", web.Methods{"GET": s.Do(s.loginPage), "POST": s.Do(web.OfForm(s.loginForm))})
	handle("/login/second-factor/", web.Methods{
		"GET": s.Do(s.secondFactorPage), "POST": s.Do(web.OfForm(s.secondFactorForm)),
	})
	handle("/logout/", web.Methods{"GET": s.Do(s.logoutPage), "POST": s.Do(web.OfForm(s.logoutForm))})
	handle("/register/", web.Methods{"GET": s.Do(s.registerPage), "POST": s.Do(web.OfForm(s.registerForm))})
	handle("/join/", web.Methods{"GET": s.Do(s.joinPage), "POST": s.Do(web.OfForm(s.joinForm))})
	handle("/register/address", web.Methods{"POST": s.Do(web.OfForm(s.addressForm))})
	handle("/reset-password/", web.Methods{
		"GET": s.Do(s.resetPage), "POST": s.Do(web.OfForm(s.resetForm, removeFactor)),
	})
	handle("/recover/", web.Methods{"GET": s.Do(s.recoverPage), "POST": s.Do(web.OfForm(s.recoverForm))})
	handle("/forgot-password/", web.Methods{"GET": s.Do(s.forgotPage), "POST": s.Do(web.OfForm(s.forgotForm))})
	for purpose, find := range map[string]findLinked{
		person.PurposeVerify: s.VerifyLinked, person.PurposeUndo: s.UndoLinked, person.PurposeCancel: s.CancelLinked,
		person.PurposeNotMe: s.NotMeLinked, person.PurposeJoin: s.JoinLinked,
	} {
		follow := s.Do(s.followLink(purpose, find))
		handle("/"+purpose+"/", web.Methods{"GET": follow, "POST": follow})
	}
	handle("/.well-known/change-password", web.Methods{"GET": s.Do(s.changePasswordPage)})
	handle("/.well-known/passkey-endpoints", web.Methods{"GET": s.Do(s.passkeyEndpoints)})
	handle("/.well-known/webauthn", web.Methods{"GET": s.Do(s.relatedOrigins)})
	for name := range s.memberPages() {
		methods := web.Methods{"GET": page(s.accountPage(name))}
		switch name {
		case "invites":
			methods["POST"] = form("invite-created", s.inviteForm)
		case "profile":
			methods["POST"] = form("profile-saved", s.profileForm)
		}
		handle("/account/"+name, methods)
	}
	handle("/account/invites/slip", web.Methods{"GET": page(s.invitePage)})
	handle("/account/picture", web.Methods{"POST": page(s.pictureForm)})
	handle("/account/picture/remove", web.Methods{"POST": form("picture-removed", s.removePicture)})
	handle("/account/verify-email", web.Methods{"POST": form("email-verified", s.verifyForm)})
	handle("/account/send-verification", web.Methods{"POST": form("verification-sent", s.sendVerification)})
	handle("/account/cancel-email", web.Methods{"POST": form("email-cancelled", s.cancelEmail)})
	handle("/account/password", web.Methods{"POST": form("password-changed", s.passwordForm)})
	handle("/account/password/remove",
		web.Methods{"POST": form("password-removed", s.asking(account.RemovePassword, s.removePasswordForm))})
	handle("/account/passkeys", web.Methods{
		"POST": page(web.OfForm(s.addPasskeyForm, keepApp, voidGiven, removeFactor)),
	})
	handle("/account/passkeys/rename", web.Methods{"POST": form("passkey-renamed", s.renamePasskeyForm)})
	handle("/account/passkeys/remove",
		web.Methods{"POST": form("passkey-removed", s.asking(account.RemoveFactor, keepingForm(s.removePasskey)))})
	handle("/account/sessions/end", web.Methods{"POST": form("session-ended", s.endOwnSession)})
	handle("/account/sessions/end-others", web.Methods{"POST": form("sessions-ended", s.endOthersForm)})
	handle("/account/invites/delete", web.Methods{"POST": form("invite-deleted", s.deleteInvite)})
	handle("/account/apps/remove", web.Methods{"POST": form("app-removed", s.removeAppForm)})
	handle("/account/confirm", web.Methods{"GET": page(s.confirmPage), "POST": page(web.OfForm(s.confirmForm))})
	handle(totpPath, web.Methods{
		"GET": page(s.totpPage), "POST": page(web.OfForm(s.totpForm, keepApp, voidGiven, removeFactor)),
	})
	handle(totpPath+"/remove",
		web.Methods{"POST": form("totp-removed", s.asking(account.RemoveFactor, keepingForm(s.removeTOTPForm)))})
	handle(stepPath, web.Methods{"POST": form("second-step-on", s.secondStepForm)})
	handle(stepPath+"/off",
		web.Methods{"POST": form("second-step-off", s.asking(account.DropSecondStep, s.dropSecondStepForm))})
	handle("/account/security/recovery-codes", web.Methods{"POST": page(web.OfForm(s.recoveryCodesForm))})
	handle("/account/export", web.Methods{"POST": page(s.export)})
	handle("/account/delete", web.Methods{"POST": form("account-deleted", s.deleteForm)})
}

// An operation serves an endpoint of the API, which answers 204, and a form of the account page.
// Its parameter is in the path of the endpoint, or in a field of the form.
type operation func(w http.ResponseWriter, r *http.Request) error

// parameter returns a parameter of an operation.
func parameter(r *http.Request, name string) string {
	if inPath, ok := mux.Vars(r)[name]; ok {
		return inPath
	}
	return r.PostForm.Get(name)
}

// The fields of a form, which may be repeated, with an application to keep, with what to void, and with a factor to
// remove: see account.Keep.
const keepApp, voidGiven, removeFactor = "keep_app", "void_given", "remove_factor"

// kept returns what the person chose in a form to keep of the other sessions, or to void besides.
func kept(r *http.Request) account.Keep {
	return account.Keep{Sessions: r.PostForm.Get("keep_other_sessions") != "", Apps: r.PostForm[keepApp],
		Void: r.PostForm[voidGiven], Remove: r.PostForm[removeFactor]}
}

// keptUnlessTicked is kept of a form that ends the other sessions only if the person says so.
func keptUnlessTicked(r *http.Request) account.Keep {
	keep := kept(r)
	keep.End = r.PostForm.Has("end_other_sessions")
	keep.Sessions = !keep.End
	return keep
}

// noContent returns the handler of an operation of the API. The body of a POST may be an empty
// object.
func noContent(do operation) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Method == http.MethodPost {
			if err := web.ReadOptionalJSON(w, r, &struct{}{}); err != nil {
				return err
			}
		}
		return web.NoContent(w, do(w, r))
	}
}

// A keepingOperation is an operation that ends the other sessions, except what is kept.
type keepingOperation func(w http.ResponseWriter, r *http.Request, keep account.Keep) error

// keepingAPI returns the handler of the API, which reads the choice from an optional JSON body.
func keepingAPI(do keepingOperation) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var keep account.Keep
		if err := web.ReadOptionalJSON(w, r, &keep); err != nil {
			return err
		}
		return web.NoContent(w, do(w, r, keep))
	}
}

// keepingForm returns the operation of a form.
func keepingForm(do keepingOperation) operation {
	return func(w http.ResponseWriter, r *http.Request) error { return do(w, r, kept(r)) }
}

// okAnswer is the response when there is nothing else to say.
type okAnswer struct {
	OK bool `json:"ok"`
}

// SignOutBrowser ends the sessions of the request, if any, and clears its cookies; see SignOut.
func (s *Site) SignOutBrowser(w http.ResponseWriter, r *http.Request, sub string) error {
	if err := s.SignOut(r.Context(), s.Caller(r), sub); err != nil {
		return err
	}
	s.clearCookies(w)
	return nil
}
