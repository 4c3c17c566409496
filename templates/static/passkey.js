// Passkeys (Web Authentication). A button with data-passkey asks the service for a challenge (data-begin) and the browser
// for its answer ("get" proves, "create" makes a passkey), puts both into the fields state and credential of its form
// (after data-prefix), and sends that. It is hidden until this runs: without passkeys there is nothing that it could do. ES2015, as cairn.js.
"use strict";

(function () {
  var buttons = document.querySelectorAll("button[data-passkey]");
  var longest = 4 * 60 * 1000; // a challenge lives for five minutes
  var host = ""; // whose passkeys the last request was about
  // The attribute with the sentence for each error of a ceremony (Web Authentication, sections 5.1.3 and 5.1.4).
  var sentences = {
    NotAllowedError: "canceled", InvalidStateError: "exists", ConstraintError: "unverified",
    NotSupportedError: "unsupported", SecurityError: "address", AbortError: "aborted"
  };
  var autofill = null; // what ends the request that waits for a choice in the list of the handle's field

  if (!window.PublicKeyCredential || !navigator.credentials || !window.fetch) {
    return;
  }

  function decode(text) {
    var raw = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
    return Uint8Array.from(raw, function (c) { return c.charCodeAt(0); });
  }

  function encode(buffer) {
    var raw = "";
    new Uint8Array(buffer).forEach(function (b) { raw += String.fromCharCode(b); });
    return btoa(raw).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  }

  function read(options, kind) {
    var parse = kind === "create" ? PublicKeyCredential.parseCreationOptionsFromJSON : PublicKeyCredential.parseRequestOptionsFromJSON;
    if (parse) {
      return parse.call(PublicKeyCredential, options);
    }
    options.challenge = decode(options.challenge);
    if (options.user) {
      options.user.id = decode(options.user.id);
    }
    (options.allowCredentials || []).concat(options.excludeCredentials || []).forEach(function (c) { c.id = decode(c.id); });
    return options;
  }

  // Password managers put objects of their own here, on which toJSON fails.
  function write(credential) {
    try {
      return JSON.stringify(credential.toJSON());
    } catch (e) {
      var from = credential.response, response = { clientDataJSON: encode(from.clientDataJSON) };
      ["attestationObject", "authenticatorData", "signature", "userHandle"].forEach(function (name) {
        if (from[name]) {
          response[name] = encode(from[name]);
        }
      });
      if (from.getTransports) {
        response.transports = from.getTransports();
      }
      return JSON.stringify({ id: credential.id, rawId: encode(credential.rawId), type: credential.type, response: response, clientExtensionResults: {} });
    }
  }

  // What begin sends: data-request, or the values of the form's fields that data-fields names.
  function request(button) {
    var names = button.getAttribute("data-fields"), values = {};
    if (!names) {
      return button.getAttribute("data-request") || "{}";
    }
    names.split(" ").forEach(function (name) { values[name] = button.form.elements.namedItem(name).value; });
    return JSON.stringify(values);
  }

  function begin(button) {
    return fetch(button.getAttribute("data-begin"), {
      method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: request(button)
    }).then(function (answer) {
      return answer.json().then(function (body) {
        if (!answer.ok) {
          throw body;
        }
        return body;
      });
    });
  }

  // ask begins and has the browser answer; then the form is on its way.
  function ask(button, more) {
    var kind = button.getAttribute("data-passkey"), fields = button.form.elements, prefix = button.getAttribute("data-prefix") || "";
    return begin(button).then(function (begun) {
      var options = { publicKey: read(begun.publicKey, kind) };
      host = begun.publicKey.rpId || begun.publicKey.rp && begun.publicKey.rp.id || "";
      Object.keys(more || {}).forEach(function (name) { options[name] = more[name]; });
      return navigator.credentials[kind](options).then(function (credential) {
        fields.namedItem(prefix + "state").value = begun.state;
        fields.namedItem(prefix + "credential").value = write(credential);
        button.form.submit();
      });
    });
  }

  function show(button, error) {
    var box = button.form.querySelector("[data-error]"), name = sentences[error.name] || "failed";
    function sentence(name) { return button.getAttribute("data-" + name) || box.getAttribute("data-" + name) || button.getAttribute("data-failed"); }
    if ((error.code === "reauthentication_required" || error.code === "second_factor_required") && button.hasAttribute("data-confirm")) {
      button.form.submit(); // the service asks for the proof, and the form comes back with what was typed
      return;
    }
    // A problem of the service speaks the language of the page.
    box.setAttribute("role", "alert");
    var faults = (error.errors || []).map(function (e) { return e.detail; });
    box.textContent = faults.length && faults.join(" ") || error.detail || sentence(name).replace("{host}", host);
    box.hidden = false;
    // Browsers refuse a device that cannot verify its user as they do what somebody cancels.
    var able = PublicKeyCredential.isUserVerifyingPlatformAuthenticatorAvailable;
    if (name === "canceled" && able) {
      able.call(PublicKeyCredential).then(function (yes) { box.textContent += yes ? "" : " " + sentence("screenlock"); }).catch(function () {});
    }
  }

  // wait offers passkeys in the list of the handle's field, with a new challenge before the last one is too old.
  function wait(button) {
    var end = new AbortController(), again = setTimeout(renew, longest);
    function stop() {
      clearTimeout(again);
      autofill = null;
      end.abort();
    }
    function renew() {
      if (autofill !== stop) {
        return;
      }
      if (document.hidden) {
        document.addEventListener("visibilitychange", renew, { once: true });
        return;
      }
      stop();
      wait(button);
    }
    autofill = stop;
    ask(button, { mediation: "conditional", signal: end.signal }).catch(function () {}); // nobody has asked for it
  }

  function offer(button) {
    if (button.hasAttribute("data-autofill") && window.AbortController && PublicKeyCredential.isConditionalMediationAvailable) {
      PublicKeyCredential.isConditionalMediationAvailable().then(function (yes) { return yes && !autofill && !button.disabled && wait(button); });
    }
  }

  // A browser that can makes a passkey automatically after a sign-in with a password; what it did is shown then.
  Array.prototype.forEach.call(document.querySelectorAll("[data-offer]"), function (box) {
    if (!PublicKeyCredential.getClientCapabilities || !window.AbortController) {
      return;
    }
    PublicKeyCredential.getClientCapabilities().then(function (can) {
      var end = new AbortController();
      if (!can.conditionalCreate) {
        return;
      }
      setTimeout(function () { end.abort(); }, longest);
      return begin(box).then(function (begun) {
        return navigator.credentials.create({ publicKey: read(begun.publicKey, "create"), mediation: "conditional", signal: end.signal }).then(function (credential) {
          return fetch(box.getAttribute("data-finish"), {
            method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" },
            body: '{"offered":true,"state":' + JSON.stringify(begun.state) + ',"credential":' + write(credential) + "}"
          });
        });
      }).then(function (answer) { box.hidden = !answer.ok; });
    }).catch(function () {}); // nobody has asked for it
  });

  // The device forgets passkeys that are gone, and learns new names; it answers nothing.
  Array.prototype.forEach.call(document.querySelectorAll("[data-signal]"), function (element) {
    var name = "signal" + element.getAttribute("data-signal");
    if (PublicKeyCredential[name]) {
      PublicKeyCredential[name](JSON.parse(element.getAttribute("data-options"))).catch(function () {});
    }
  });

  Array.prototype.forEach.call(buttons, function (button) {
    button.addEventListener("click", function (event) {
      event.preventDefault();
      if (autofill) {
        autofill();
      }
      button.form.querySelector("[data-error]").hidden = true;
      button.disabled = true;
      ask(button).catch(function (error) {
        button.disabled = false;
        show(button, error);
        offer(button);
      });
    });
    button.hidden = false;
    button.form.hidden = false;
    offer(button);
  });
  Array.prototype.forEach.call(document.querySelectorAll("[data-without-passkeys], [data-with-passkeys]"), function (element) { element.hidden = !element.hidden; });
})();
