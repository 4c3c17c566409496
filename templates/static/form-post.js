// Sends an authorization response on to the application (OAuth 2.0 Form Post Response Mode). A file of its own, in ES2015:
// nothing else on a page can keep it from running.
"use strict";

(function () {
  var form = document.getElementById("form-post");
  // A native application's address waits for the button: browsers open other programs only after a click. The prototypes'
  // methods, because a parameter named "submit" or "getAttribute" would hide the form's own.
  if (form && /^https?:/i.test(Element.prototype.getAttribute.call(form, "action"))) {
    HTMLFormElement.prototype.submit.call(form);
  }
})();
