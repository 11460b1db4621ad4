// The storefront: sales with a countdown by the server's clock, one button for each item, and the buyer's orders as
// they change.
import { config, isLocal } from "/common/config.js";
import { $, setText } from "/common/page.js";
import { signInProblem } from "/common/sign-in.js";
import { enter, showSignInProblem } from "/shop/account.js";
import { drawCountdowns, drawOrders } from "/shop/orders.js";
import { drawSales, watchSales } from "/shop/sales.js";
import { addView, say } from "/shop/state.js";

document.title = config.shopName ? `${config.shopName} – ${say("title")}` : say("title");
setText($("#brand"), config.shopName || say("title"));
setText($("#skip"), say("skip"));
setText($("#foot"), isLocal ? say("local") : "");

addView(drawSales);
addView(drawOrders);
enter();
if (signInProblem) showSignInProblem(signInProblem);
watchSales();
setInterval(() => {
  drawSales();
  drawCountdowns();
}, 250);
